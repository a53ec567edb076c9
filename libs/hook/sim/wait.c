/* Waiting for time, a stream, an event, room in a queue or a host function.
 *
 * Virtual time: it moves to the next thing that happens when nobody who joined is running and somebody waits in the foreground. So a
 * thread that joined sees host code take no time at all, and a run is the same every time. Threads that never joined do not hold time
 * back; alone, such a thread simply jumps to the end of its wait. */
#include "state.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Thread_local SimThread *mine;
static pthread_key_t leaving;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void leave(void *thread)
{
    (void)thread;
    sim_thread_leave();
}

static void make_key(void) { pthread_key_create(&leaving, leave); }

static SimThread *thread_slot(void) /* lock held; NULL: too many threads */
{
    if (mine)
        return mine;
    pthread_once(&once, make_key);
    for (uint32_t i = 0; i < SIM_THREADS; i++) {
        SimThread *t = &sim->thread[i];
        if (t->live)
            continue;
        memset(t, 0, sizeof *t);
        t->proc = sim_process();
        t->live = 1;
        if (i >= sim->threads_high)
            sim->threads_high = i + 1;
        pthread_setspecific(leaving, t);
        return mine = t;
    }
    return NULL;
}

void sim_thread_join(bool background)
{
    sim_lock();
    SimThread *t = thread_slot();
    if (t) {
        t->joined = 1;
        t->background = background;
    }
    sim_unlock();
}

void sim_thread_leave(void)
{
    if (!mine)
        return;
    sim_lock();
    mine->live = 0;
    mine = NULL;
    pthread_setspecific(leaving, NULL);
    sim_notify();
    sim_unlock();
}

static bool host_ready(uint32_t proc) /* a host function of this process is next in its stream */
{
    for (uint32_t c = 0; c < sim->config.cards; c++)
        for (uint32_t i = 0; i < sim->card[c].active_count; i++) {
            const SimStream *s = &sim->stream[sim->card[c].active[i]];
            const SimOp *op = &sim->op[s->head];
            if (op->kind == SIM_OP_HOST && op->generation == 0 && op->fn && sim->context[s->context].proc == proc && sim_stream_may_run(s, op))
                return true;
        }
    return false;
}

bool sim_satisfied(const SimThread *t)
{
    const SimStream *s = &sim->stream[t->object % SIM_STREAMS];
    switch (t->kind) {
    case SIM_WAIT_TIME: return sim_now() >= t->ticket;
    case SIM_WAIT_STREAM: return !s->live || s->done >= t->ticket;
    case SIM_WAIT_EVENT: return !sim->event[t->object].live || sim->event[t->object].done >= t->ticket;
    case SIM_WAIT_ROOM: return !sim->context[t->object].live || sim->context[t->object].pending < t->ticket;
    case SIM_WAIT_HOST: return host_ready(t->proc);
    default: return true;
    }
}

static void wake(SimThread *t)
{
    t->kind = SIM_WAIT_NONE; /* running from now on, so that time stands still until it waits again */
    __atomic_add_fetch(&t->wake, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &t->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void sim_notify(void)
{
    for (uint32_t i = 0; i < sim->threads_high; i++) {
        SimThread *t = &sim->thread[i];
        if (t->live && t->kind != SIM_WAIT_NONE && sim_satisfied(t))
            wake(t);
    }
}

static bool may_pass(void)
{
    uint32_t joined = 0;
    bool foreground = false;
    for (uint32_t i = 0; i < sim->threads_high; i++) {
        const SimThread *t = &sim->thread[i];
        if (!t->live)
            continue;
        joined += t->joined && !t->background;
        if (t->joined && t->kind == SIM_WAIT_NONE)
            return false;
        foreground = foreground || (!t->background && t->kind != SIM_WAIT_NONE);
    }
    if (!sim->started && joined < sim->config.participants)
        return false;
    sim->started = 1;
    return foreground;
}

static bool pass(void) /* to the next thing that happens; false: nothing will */
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < sim->config.cards; i++) {
        uint64_t change = sim_next_change(i);
        next = change < next ? change : next;
    }
    for (uint32_t i = 0; i < sim->threads_high; i++) {
        const SimThread *t = &sim->thread[i];
        if (t->live && t->kind == SIM_WAIT_TIME && t->ticket < next)
            next = t->ticket;
    }
    if (next == UINT64_MAX)
        return false;
    sim_advance_virtual(next);
    return true;
}

static void doze(SimThread *t, uint64_t ns)
{
    uint32_t seen = __atomic_load_n(&t->wake, __ATOMIC_ACQUIRE);
    struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    sim_unlock();
    long rc = syscall(SYS_futex, &t->wake, FUTEX_WAIT, seen, &limit, NULL, 0);
    bool late = rc < 0 && errno == ETIMEDOUT;
    sim_lock();
    if (late && t->kind != SIM_WAIT_NONE && ns >= 2000000)
        sim_sweep(); /* perhaps those who hold time back are dead */
}

static void wait_virtual(SimThread *t)
{
    while (t->kind != SIM_WAIT_NONE) {
        sim_notify();
        if (t->kind == SIM_WAIT_NONE)
            break;
        if (!may_pass() || !pass())
            doze(t, 5000000);
    }
}

/* Real nanoseconds that the wait lasts at least: what is queued before the ticket on its own stream. */
static uint64_t at_least(const SimThread *t)
{
    uint64_t ns = 0, now = sim_now();
    if (t->kind == SIM_WAIT_TIME) {
        ns = t->ticket > now ? t->ticket - now : 0;
    } else if (t->kind == SIM_WAIT_STREAM) {
        for (uint32_t i = sim->stream[t->object].head; i != SIM_NONE && sim->op[i].sequence <= t->ticket; i = sim->op[i].next)
            ns += sim->op[i].left_ns;
    } else if (t->kind == SIM_WAIT_HOST) {
        ns = 1000000;
    } else {
        uint64_t next = UINT64_MAX;
        for (uint32_t i = 0; i < sim->config.cards; i++) {
            uint64_t change = sim_next_change(i);
            next = change < next ? change : next;
        }
        ns = next == UINT64_MAX ? 1000000 : next > now ? next - now : 0;
    }
    return ns / (sim->config.clock == SIM_CLOCK_SCALED ? sim->config.scale : 1);
}

static void wait_real(SimThread *t)
{
    for (;;) {
        for (uint32_t i = 0; i < sim->config.cards; i++)
            sim_catch_up(i);
        if (t->kind == SIM_WAIT_NONE || sim_satisfied(t))
            break;
        uint64_t ns = at_least(t);
        if (ns < 60000) { /* shorter than a sleep lasts */
            sim_unlock();
            sched_yield();
            sim_lock();
        } else {
            doze(t, ns < 10000000 ? ns - 40000 : 10000000);
        }
    }
    t->kind = SIM_WAIT_NONE;
}

void sim_wait(SimWaitKind kind, uint32_t object, uint64_t ticket, bool background)
{
    SimThread *t = thread_slot();
    if (!t)
        return;
    t->object = object;
    t->ticket = ticket;
    t->kind = kind;
    if (background)
        t->background = 1;
    if (sim->config.clock == SIM_CLOCK_VIRTUAL)
        wait_virtual(t);
    else
        wait_real(t);
    t->kind = SIM_WAIT_NONE;
}

void sim_poll(void)
{
    if (sim->config.clock == SIM_CLOCK_VIRTUAL && !(mine && mine->background))
        sim_wait(SIM_WAIT_TIME, 0, sim_now() + 1000, false);
}
