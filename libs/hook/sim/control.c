/* Extras for tests: the clock, and what the machine really holds. */
#include "control.h"

#include "driver.h"

#include <unistd.h>

static bool attached(void) { return sim_open() && sim_process_attach(); }

uint64_t cuSimNow(void) { return sim_open() ? sim_now() : 0; }
int cuSimIsVirtual(void) { return sim_open() && sim->config.clock == SIM_CLOCK_VIRTUAL; }

void cuSimSleep(uint64_t ns)
{
    if (!attached())
        return;
    sim_lock();
    sim_wait(SIM_WAIT_TIME, 0, sim_now() + ns, false);
    sim_unlock();
}

void cuSimSleepBackground(uint64_t ns)
{
    if (!attached())
        return;
    sim_thread_join(true);
    sim_lock();
    sim_wait(SIM_WAIT_TIME, 0, sim_now() + ns, true);
    sim_unlock();
}

void cuSimJoin(void)
{
    if (attached())
        sim_thread_join(false);
}

void cuSimLeave(void)
{
    if (sim)
        sim_thread_leave();
}

int cuSimBeginCapture(void *stream) { return (int)cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED); }

uint64_t cuSimCardUsed(int card)
{
    uint64_t used = 0;
    if (sim_open() && card >= 0 && card < SIM_CARDS)
        sim_used((uint32_t)card, &used);
    return used;
}

/* By number, within the caller's pid namespace; 0: all. */
static bool meant(const SimProc *p, int pid) { return !pid || (p->pid == (uint32_t)pid && p->space == sim_pid_space()); }

static uint64_t sum(int card, int pid, uint64_t (*of)(const SimProc *, int))
{
    uint64_t total = 0;
    if (!sim_open() || card < 0 || card >= SIM_CARDS)
        return 0;
    sim_lock();
    sim_sweep();
    sim_catch_up((uint32_t)card);
    for (uint32_t i = 0; i < sim->procs_high; i++)
        if (sim->proc[i].live && meant(&sim->proc[i], pid))
            total += of(&sim->proc[i], card);
    sim_unlock();
    return total;
}

static uint64_t used_of(const SimProc *p, int card) { return p->used[card]; }
static uint64_t busy_of(const SimProc *p, int card) { return p->busy_ns[card]; }

static uint64_t launches_of(const SimProc *p, int card)
{
    (void)card;
    return p->launches;
}

uint64_t cuSimProcessUsed(int card, int pid)
{
    uint64_t total = sum(card, pid, used_of);
    if (!sim)
        return 0;
    sim_lock();
    for (uint32_t i = 0; i < SIM_BLOCKS; i++) {
        uint32_t holder = sim->block[i].live && sim->block[i].card == (uint32_t)card ? sim_block_holder(&sim->block[i]) : SIM_NONE;
        if (holder != SIM_NONE && meant(&sim->proc[holder], pid))
            total += sim->block[i].bytes;
    }
    sim_unlock();
    return total;
}

uint64_t cuSimBusy(int card, int pid) { return sum(card, pid, busy_of); }
uint64_t cuSimLaunches(int pid) { return sum(0, pid, launches_of); }
uint64_t cuSimRecoveries(void) { return sim_open() ? sim->recoveries : 0; }

int cuSimConsistent(void)
{
    bool same = true;
    if (!sim_open())
        return 0;
    sim_lock();
    for (uint32_t i = 0; i < sim->config.cards; i++) {
        uint64_t before = sim->card[i].used;
        sim_sum_used(i);
        same = same && sim->card[i].used == before;
    }
    sim_unlock();
    return same;
}
