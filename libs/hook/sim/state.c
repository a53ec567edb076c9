/* Maps the machine's file, creating it for the first process, and keeps the lock that a killed holder cannot wedge. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

SimState *sim;
static long kill_at;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

const char *sim_state_path(void)
{
    static char path[4096];
    const char *given = getenv("TESSERA_SIM_STATE");
    const char *dir = getenv("TMPDIR");
    if (path[0])
        return path;
    if (given && *given)
        snprintf(path, sizeof path, "%s", given);
    else
        snprintf(path, sizeof path, "%s/tessera-sim-%u", dir && *dir ? dir : "/tmp", (unsigned)getuid());
    return path;
}

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void create(SimState *s)
{
    pthread_mutexattr_t attr;
    sim_config_load(&s->config);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&s->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    s->origin_ns = clock_ns(CLOCK_MONOTONIC);
    s->origin_us = clock_ns(CLOCK_REALTIME) / 1000;
    s->free_op = s->free_event = SIM_NONE;
    for (uint32_t i = 0; i < SIM_CARDS; i++) {
        s->card[i].context = SIM_NONE;
        s->card[i].sample_end = s->config.sample_ns;
    }
    s->layout = SIM_LAYOUT;
    s->size_words = (uint32_t)(sizeof *s / 8);
    __atomic_store_n(&s->magic, SIM_MAGIC, __ATOMIC_RELEASE);
}

/* A file of another layout is no machine of ours and is refused; it is never written over. */
static SimState *map(int fd)
{
    struct stat st;
    SimState *s;
    if (flock(fd, LOCK_EX) || fstat(fd, &st))
        return NULL;
    bool fresh = st.st_size == 0;
    if (fresh && ftruncate(fd, sizeof *s))
        return NULL;
    if (!fresh && st.st_size != (off_t)sizeof *s)
        return NULL;
    s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED)
        return NULL;
    if (s->magic == 0)
        create(s);
    if (s->magic != SIM_MAGIC || s->layout != SIM_LAYOUT || s->size_words != sizeof *s / 8) {
        munmap(s, sizeof *s);
        return NULL;
    }
    return s;
}

/* Another thread of the parent may have been opening it. */
static void in_child(void) { opening = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }
__attribute__((constructor)) static void tell_children(void) { pthread_atfork(NULL, NULL, in_child); }

bool sim_open(void)
{
    if (__atomic_load_n(&sim, __ATOMIC_ACQUIRE))
        return true;
    pthread_mutex_lock(&opening);
    if (!sim) {
        int fd = open(sim_state_path(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        const char *at = getenv("TESSERA_SIM_KILL_AT");
        kill_at = at ? atol(at) : 0;
        if (fd >= 0) {
            SimState *s = map(fd);
            flock(fd, LOCK_UN); /* by hand: the mapping keeps the file open, and its lock with it */
            close(fd);
            __atomic_store_n(&sim, s, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&opening);
    return sim != NULL;
}

/* A process that is killed just after it was woken takes the wake-up of glibc's robust mutex with it: a process that
 * sleeps looks again after a second. */
static int wait_for_lock(void)
{
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        int r = pthread_mutex_timedlock(&sim->lock, &until);
        if (r != ETIMEDOUT)
            return r;
    }
}

void sim_lock(void)
{
    int r = pthread_mutex_trylock(&sim->lock);
    if ((r == EBUSY ? wait_for_lock() : r) == EOWNERDEAD) {
        sim_recover();
        pthread_mutex_consistent(&sim->lock);
    }
}

void sim_unlock(void) { pthread_mutex_unlock(&sim->lock); }

void sim_kill_point(void)
{
    if (kill_at > 0 && --kill_at == 0)
        kill(getpid(), SIGKILL);
}
