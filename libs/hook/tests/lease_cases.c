/* Processes of one container take turns while it is short of GPU time. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "harness.h"

#define MS 1000000ull

static void join(void) {
    ((void (*)(void))(uintptr_t)driver_get("cuSimJoin"))();
}

static void leave(void) {
    ((void (*)(void))(uintptr_t)driver_get("cuSimLeave"))();
}

/* One launch at a time until the machine's clock says so. */
static void launch_until(uint64_t kernel_ns, uint64_t end, volatile uint64_t *ran) {
    CUfunction f = kernel(kernel_ns);
    PFN_cuLaunchKernel launch = CU(cuLaunchKernel);
    PFN_cuStreamSynchronize synchronize = CU(cuStreamSynchronize);
    join();
    while (sim_now() < end) {
        EQUAL(launch(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(synchronize(NULL), 0);
        *ran = sim_busy(getpid());
    }
}

static volatile uint64_t *busy; /* of the two workers, as they saw it last: shared with them */

static pid_t worker(int i, uint64_t kernel_ns, uint64_t seconds) {
    if (!busy)
        busy = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (pid == 0) {
        begin();
        launch_until(kernel_ns, sim_now() + seconds * 1000 * MS, &busy[i]);
        leave();
        _exit(0);
    }
    return pid;
}

/* First come, first served would give the long ones forty times as much. */
TEST(processes_of_a_container_share_its_time_alike, "cores=60", "clock=virtual participants=2") {
    pid_t a = worker(0, 40 * MS, 6), b = worker(1, MS, 6);
    EQUAL(wait_for(a), 0);
    EQUAL(wait_for(b), 0);
    double longer = (double)busy[0] / 1e6, shorter = (double)busy[1] / 1e6;
    fprintf(stderr, "    kernels of 40 ms ran for %.0f ms, those of 1 ms for %.0f ms\n", longer, shorter);
    CHECK(longer + shorter > 0.58 * 6000 && longer + shorter < 0.63 * 6000);
    CHECK(longer < 1.5 * shorter && shorter < 1.5 * longer);
}

TEST(who_dies_with_the_lease_loses_it, "cores=50", "clock=virtual participants=2") {
    pid_t victim = worker(0, MS, 60), heir = worker(1, MS, 60);
    const struct tessera_usage *now = NULL;
    while (!now || !now->card[0].lease || !sim_now()) { /* both have begun: the clock stands still before */
        usleep(1000);
        now = now || !usage_is_there() ? now : usage();
    }
    uint32_t slot = now->card[0].lease - 1;
    pid_t holder = now->slot[slot].pid;
    CHECK(holder == victim || holder == heir);
    pid_t other = holder == victim ? heir : victim;
    volatile uint64_t *ran = &busy[other == heir];
    EQUAL(kill(holder, SIGKILL), 0);
    EQUAL(wait_for(holder), 128 + SIGKILL);
    uint64_t before = *ran;
    for (int i = 0; i < 60000 && *ran < before + 500 * MS; i++)
        usleep(1000);
    CHECK(*ran >= before + 500 * MS);
    kill(other, SIGKILL);
    wait_for(other);
}

/* Under MPS contexts run side by side: there is nothing to take turns for. */
TEST(nobody_takes_turns_under_mps, "cores=50", "clock=virtual participants=2") {
    setenv("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps", 1);
    pid_t a = worker(0, MS, 2), b = worker(1, MS, 2);
    EQUAL(wait_for(a), 0);
    EQUAL(wait_for(b), 0);
    EQUAL(usage()->card[0].lease, 0);
}

TEST(nobody_takes_turns_alone, "cores=50", "clock=virtual participants=1") {
    begin();
    uint64_t ran;
    launch_until(MS, sim_now() + 2000 * MS, &ran);
    leave();
    EQUAL(usage()->card[0].lease, 0);
}
