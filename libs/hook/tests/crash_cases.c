/* SIGKILL and SIGSTOP where it hurts, and the account after it; random operations against a model. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wander.h"

static void pointed(const char *variable, const char *value, const char *program) {
    char hook[512];
    snprintf(hook, sizeof hook, "%s/points/libtessera.so", getenv("TEST_BUILD"));
    setenv(variable, value, 1);
    setenv("TEST_CASE", program, 1);
    setenv("LD_PRELOAD", hook, 1);
    execl("/proc/self/exe", "cases", "x", (char *)NULL);
    _exit(127);
}

/* The program dies at its n-th point, for every n; whoever lives finds a clean account at once. */
static void sweep(const char *program, int least) {
    char text[16];
    CUdeviceptr mine, all;
    int died = 0;
    begin();
    EQUAL(allocate(64, &mine), 0);
    uint64_t others = sim_used() - 64 * MIB;
    for (int n = 1; n < 400; n++) {
        snprintf(text, sizeof text, "%d", n);
        pid_t pid = fork();
        if (pid == 0)
            pointed("TESSERA_KILL_AT", text, program);
        int status = wait_for(pid);
        if (status == 0)
            break;
        EQUAL(status, 137);
        died++;
        EQUAL(allocate(960, &all), 0);
        EQUAL(charged(), 1024 * MIB);
        EQUAL(CU(cuMemFree_v2)(all), 0);
        EQUAL(charged(), 64 * MIB);
        EQUAL(charged(), sim_used() - others);
    }
    fprintf(stderr, "    %d points\n", died);
    CHECK(died >= least);
}

#define SWEEP(name, least, body)                                                                  \
    TEST(killed_at_every_point_of_##name, "memory=1024", NULL) { sweep("die_in_" #name, least); } \
    TEST(die_in_##name, "memory=1024", NULL) {                                                    \
        struct thing a, b;                                                                        \
        (void)a, (void)b;                                                                         \
        begin();                                                                                  \
        for (int i_ = 0; i_ < 2; i_++)                                                            \
            body                                                                                  \
    }
#define BOTH(kind)                                     \
    {                                                  \
        EQUAL(wander_take(kind, 100 * MIB, &a), 1);    \
        EQUAL(wander_take(kind, 50 * MIB, &b), 1);     \
        EQUAL(wander_take(kind, 1000 * MIB, &b), 0);   \
        wander_give(&a);                               \
    }
SWEEP(linear_memory, 20, BOTH(WANDER_LINEAR))
SWEEP(pitched_memory, 20, BOTH(WANDER_PITCH))
SWEEP(arrays, 20, BOTH(WANDER_ARRAY))
SWEEP(mipmaps, 20, BOTH(WANDER_MIPMAP))
SWEEP(virtual_memory, 20, BOTH(WANDER_VMM))
SWEEP(pools, 20, BOTH(WANDER_POOL))
SWEEP(graphs, 10, {
    wander_graph(100 * MIB);
    EQUAL(CU(cuDeviceGraphMemTrim)(0), 0);
    wander_graph(1000 * MIB);
})
SWEEP(managed_memory, 10, {
    EQUAL(CU(cuMemAllocManaged)(&a.at, 50 * MIB, CU_MEM_ATTACH_GLOBAL), 0);
    EQUAL(CU(cuMemFree_v2)(a.at), 0);
})

/* Stopped inside the lock for longer than anybody waits; meanwhile others charge. When it goes on,
 * neither the sum nor what was granted may be stale. */
static void stopped_at(const char *point) {
    int status;
    CUdeviceptr p;
    begin();
    pid_t pid = fork();
    if (pid == 0)
        pointed("TESSERA_STOP_AT", point, "take_six_hundred");
    EQUAL(waitpid(pid, &status, WUNTRACED), pid);
    CHECK(WIFSTOPPED(status));
    EQUAL(allocate(300, &p), 0); /* takes the lock from it after two seconds */
    int fits = allocate(200, NULL) == 0;
    kill(pid, SIGCONT);
    status = wait_for(pid); /* 0: it has its 600; 1: refused */
    CHECK(status == 0 || status == 1);
    CHECK(!(fits && status == 0));
    usleep(150000);
    EQUAL(allocate(1, NULL), 0);
    EQUAL(charged(), 302 * MIB + (fits ? 200 * MIB : 0));
}
TEST(stopped_before_it_has_charged, "memory=1024", NULL) { stopped_at("charge: looked"); }
TEST(stopped_after_it_has_charged, "memory=1024", NULL) { stopped_at("charge: slot"); }
TEST(take_six_hundred, "memory=1024", NULL) {
    if (!getenv("TESSERA_STOP_AT"))
        return;
    begin();
    int taken = allocate(600, NULL) == 0;
    if (taken)
        CHECK(charged() <= 1024 * MIB);
    _exit(!taken);
}

/* SOAK: operations of all processes together. Rounds: at the end of each everybody stands still and
 * the sum of charges must be what the machine says that the processes hold. */
#define WALKERS 8
#define ROUNDS 10
static void operations_add_up(size_t least, size_t most) {
    wander_least = least;
    wander_most = most;
    pid_t pids[WALKERS];
    long all = getenv("SOAK") ? atol(getenv("SOAK")) : 200000;
    for (unsigned i = 0; i < WALKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct thing held[64];
            int count = 0;
            begin();
            for (unsigned round = 0; round < ROUNDS; round++) {
                wander(i * ROUNDS + round + 1, all / WALKERS / ROUNDS, held, &count);
                EQUAL(CU(cuStreamSynchronize)(NULL), 0); /* pools have given back, and are known to have */
                raise(SIGSTOP);
            }
            _exit(0);
        }
    }
    uint64_t (*of)(int, int) = (uint64_t(*)(int, int))(uintptr_t)driver_get("cuSimProcessUsed");
    CU(cuInit)(0);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t held = 0;
        for (int i = 0; i < WALKERS; i++) {
            int status;
            EQUAL(waitpid(pids[i], &status, WUNTRACED), pids[i]);
            CHECK(WIFSTOPPED(status));
        }
        for (int i = 0; i < WALKERS; i++)
            held += of(0, pids[i]) - 300 * MIB;
        EQUAL(charged(), held);
        CHECK(usage()->card[0].peak_bytes <= 1024 * MIB);
        for (int i = 0; i < WALKERS; i++)
            kill(pids[i], round == ROUNDS - 1 ? SIGKILL : SIGCONT);
    }
    for (int i = 0; i < WALKERS; i++)
        wait_for(pids[i]);
    fprintf(stderr, "    %ld operations of %d processes\n", all, WALKERS);
    begin();
    EQUAL(allocate(1024, NULL), 0);
}
TEST(random_operations_add_up, "memory=1024", NULL) { operations_add_up(MIB, 16 * MIB); }
/* Those share pages with others of their process. */
TEST(random_operations_of_less_than_half_a_page_add_up, "memory=1024", NULL) { operations_add_up(512, MIB - 8192); }
