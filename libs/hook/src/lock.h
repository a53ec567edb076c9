/* A lock of one process: no pthread symbols (old glibc keeps them in another library), reset in a
 * forked child by storing zero. */
#ifndef TESSERA_SRC_LOCK_H
#define TESSERA_SRC_LOCK_H

#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    uint32_t word; /* 0 free, 1 held, 2 held and awaited */
} ts_lock;

static inline void ts_futex_wait(uint32_t *word, uint32_t seen, int shared, const struct timespec *most) {
    syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, seen, most, NULL, 0);
}

static inline void ts_futex_wake(uint32_t *word, int shared, int count) {
    syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void ts_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline int ts_try_lock(ts_lock *lock) {
    uint32_t free_word = 0;
    return __atomic_compare_exchange_n(&lock->word, &free_word, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void ts_lock_take(ts_lock *lock) {
    for (int i = 0; i < 64; i++) {
        if (ts_try_lock(lock))
            return;
        ts_pause();
    }
    while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0)
        ts_futex_wait(&lock->word, 2, 0, NULL);
}

static inline void ts_lock_give(ts_lock *lock) {
    if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)
        ts_futex_wake(&lock->word, 0, 1);
}

#endif
