#include "clock.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "lock.h"
#include "relaxed.h"

#define SELDOM 64 /* of the machine's time next to another clock's: a busy machine must not change what is measured */
#define WAKES_IN 50000ull /* what a futex takes on a busy machine */

static ts_clock_now other_now TS_HOT;
static ts_clock_sleep other_sleep;
static uint64_t real_ahead; /* CLOCK_REALTIME - CLOCK_MONOTONIC_COARSE, renewed by ts_real */

TS_OFTEN static uint64_t read_clock(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * TS_S + (uint64_t)t.tv_nsec;
}

void ts_clock_use(ts_clock_now now, ts_clock_sleep sleep) {
    other_now = now && sleep ? now : NULL;
    other_sleep = now && sleep ? sleep : NULL;
}

uint64_t ts_now(void) {
    return other_now ? other_now() : read_clock(CLOCK_MONOTONIC);
}

void ts_sleep(uint64_t ns) {
    if (other_sleep) {
        other_sleep(ns);
        return;
    }
    struct timespec left = {(time_t)(ns / TS_S), (long)(ns % TS_S)};
    int saved = errno;
    nanosleep(&left, NULL); /* a signal ends it early: the caller looks at the clock anyway */
    errno = saved;
}

void ts_clock_wait(uint32_t *word, uint32_t seen, uint64_t most, uint64_t late) {
    late = late > WAKES_IN ? late : WAKES_IN;
    struct timespec left = {(time_t)(most / TS_S), (long)(most % TS_S)};
    int saved = errno;
    if (other_sleep) /* that clock stands still while a process waits for anything else: look again and again */
        other_sleep(most < late ? most : late);
    else
        ts_futex_wait(word, seen, 1, &left);
    errno = saved;
}

TS_OFTEN uint64_t ts_coarse(void) {
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

TS_OFTEN uint64_t ts_passing(void) {
    return other_now ? other_now() + ts_coarse() / SELDOM : ts_coarse();
}

uint64_t ts_real(void) {
    uint64_t real = read_clock(CLOCK_REALTIME);
    __atomic_store_n(&real_ahead, real - ts_coarse(), __ATOMIC_RELAXED);
    return real;
}

uint64_t ts_real_of(uint64_t coarse) {
    uint64_t ahead = __atomic_load_n(&real_ahead, __ATOMIC_RELAXED);
    return ahead ? coarse + ahead : ts_real();
}
