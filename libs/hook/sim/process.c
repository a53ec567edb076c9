/* A slot per process, held by a POSIX record lock that the kernel drops when the process dies, by whatever cause. */
#include "state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t me = SIM_NONE;
static int life = -1;

uint32_t sim_process(void) { return me; }

static int life_file(void)
{
    char path[4200];
    if (life < 0) {
        snprintf(path, sizeof path, "%s.life", sim_state_path());
        life = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    }
    return life;
}

static bool record(int command, uint32_t slot, struct flock *lock)
{
    *lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)slot, .l_len = 1};
    return life_file() >= 0 && fcntl(life, command, lock) == 0;
}

/* Two containers may both have a process 7. */
uint64_t sim_pid_space(void)
{
    static uint64_t space;
    struct stat ns;
    if (!space)
        space = stat("/proc/self/ns/pid", &ns) == 0 ? (uint64_t)ns.st_ino : 1;
    return space;
}

static bool is_self(const SimProc *p) { return p->pid == (uint32_t)getpid() && p->space == sim_pid_space(); }

/* The kernel tells the holder of a lock by the asker's numbers. */
uint32_t sim_pid_seen(uint32_t proc)
{
    struct flock lock;
    const SimProc *p = &sim->proc[proc];
    if (is_self(p) || !record(F_GETLK, proc, &lock) || lock.l_type == F_UNLCK)
        return p->pid;
    return lock.l_pid > 0 ? (uint32_t)lock.l_pid : 0;
}

bool sim_process_attach(void)
{
    struct flock lock;
    if (me != SIM_NONE)
        return true;
    sim_lock();
    sim_sweep();
    for (uint32_t i = 0; i < SIM_PROCS && me == SIM_NONE; i++) {
        SimProc *p = &sim->proc[i];
        if (p->live || !record(F_SETLK, i, &lock))
            continue;
        memset(p, 0, sizeof *p);
        p->pid = (uint32_t)getpid();
        p->space = sim_pid_space();
        if (i >= sim->procs_high)
            sim->procs_high = i + 1;
        sim_kill_point();
        __atomic_store_n(&p->live, 1, __ATOMIC_RELEASE);
        me = i;
    }
    sim_unlock();
    return me != SIM_NONE;
}

void sim_reclaim(uint32_t proc)
{
    for (uint32_t i = 0; i < sim->threads_high; i++)
        if (sim->thread[i].live && sim->thread[i].proc == proc)
            sim->thread[i].live = 0;
    for (uint32_t i = 0; i < SIM_BLOCKS; i++)
        if (sim->block[i].live)
            sim->block[i].references[proc] = 0;
    for (uint32_t i = 0; i < SIM_CONTEXTS; i++)
        if (sim->context[i].live && sim->context[i].proc == proc)
            sim->context[i].live = 0;
    sim->proc[proc].live = 0;
}

void sim_sweep(void)
{
    bool died = false;
    struct flock lock; /* the simulated NVML has no slot, and its process's own locks never look taken to it */
    for (uint32_t i = 0; i < sim->procs_high; i++)
        if (sim->proc[i].live && i != me && !is_self(&sim->proc[i]) && record(F_GETLK, i, &lock) && lock.l_type == F_UNLCK) {
            sim_reclaim(i);
            died = true;
        }
    if (died)
        sim_recover(); /* sums and queues are rebuilt from what still lives */
}

/* To query the locks of a node full of processes in every call would be most of what it takes an agent to read its cards. */
void sim_sweep_for_reader(void)
{
    enum { MANY = 32, BELIEVED_NS = 2000000 };
    static uint64_t swept;
    uint64_t now = sim_now();
    if (sim->procs_high >= MANY && now - swept < BELIEVED_NS && sim->config.clock != SIM_CLOCK_VIRTUAL)
        return;
    sim_sweep();
    swept = now;
}
