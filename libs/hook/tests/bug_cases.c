/* Bugs and bypasses of the existing libraries that no other theme covers; docs/hook.md has the table.
 * hc: HAMi-core, vc: vcuda-controller, vm: vgpu-manager. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define MS 1000000ull

TEST(hc_total_memory_is_zero_without_a_limit, "cores=50", NULL) {
    size_t total = 0;
    begin();
    EQUAL(CU(cuDeviceTotalMem_v2)(&total, 0), 0);
    EQUAL(total, 16384 * MIB);
    EQUAL(allocate(2000, NULL), 0);
}

TEST(hc_managed_memory_says_it_is_not, "memory=64", NULL) {
    CUdeviceptr p;
    int managed = 0;
    begin();
    EQUAL(CU(cuMemAllocManaged)(&p, MIB, CU_MEM_ATTACH_GLOBAL), 0);
    EQUAL(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p), 0);
    EQUAL(managed, 1);
}

TEST(hc_host_memory_is_refused_when_the_tile_is_full, "memory=64", NULL) {
    void *p;
    begin();
    EQUAL(allocate(64, NULL), 0);
    EQUAL(CU(cuMemHostAlloc)(&p, 100 * MIB, 0), 0);
    EQUAL(CU(cuMemFreeHost)(p), 0);
}

TEST(hc_signal_handlers_are_replaced, "memory=64", NULL) {
    struct sigaction mine = {.sa_handler = SIG_IGN}, now;
    sigaction(SIGUSR1, &mine, NULL);
    begin();
    EQUAL(allocate(1, NULL), 0);
    sigaction(SIGUSR1, NULL, &now);
    CHECK(now.sa_handler == SIG_IGN);
    sigaction(SIGUSR2, NULL, &now);
    CHECK(now.sa_handler == SIG_DFL);
}

static pid_t holder(size_t mib, const char *name, int unlimited) {
    int ready[2];
    char c;
    EQUAL(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (unlimited)
            setenv("TESSERA_LIMITS", "/dev/null/none", 1);
        if (name)
            prctl(PR_SET_NAME, name);
        begin();
        EQUAL(allocate(mib, NULL), 0);
        EQUAL(write(ready[1], "x", 1), 1);
        pause();
    }
    close(ready[1]); /* so that a child that fails ends the read */
    EQUAL(read(ready[0], &c, 1), 1);
    return pid;
}

TEST(hc_free_ignores_what_other_tenants_hold, "memory=8192", "memory=10g") {
    size_t free_bytes, total;
    pid_t tenant = holder(8000, NULL, 1);
    begin();
    EQUAL(CU(cuMemGetInfo_v2)(&free_bytes, &total), 0);
    EQUAL(total, 8192 * MIB);
    CHECK(free_bytes < 2240 * MIB && free_bytes > 1000 * MIB);
    kill(tenant, SIGKILL);
    wait_for(tenant);
}

/* The second of three goes; the third must go on being counted where it is looked for. */
TEST(hc_slots_that_move_lose_their_charge, "memory=1024", NULL) {
    pid_t first = holder(100, NULL, 0), second = holder(100, NULL, 0), third = holder(700, NULL, 0);
    kill(second, SIGKILL);
    wait_for(second);
    begin();
    EQUAL(allocate(300, NULL), CUDA_ERROR_OUT_OF_MEMORY); /* reaps */
    EQUAL(charged(), 800 * MIB);
    EQUAL(allocate(224, NULL), 0);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    kill(first, SIGKILL);
    kill(third, SIGKILL);
    wait_for(first);
    wait_for(third);
    EQUAL(allocate(800, NULL), 0);
}

TEST(hc_a_dead_process_with_an_odd_name_lives_for_ever, "memory=1024", NULL) {
    pid_t odd = holder(900, "a b) Z 1 (c", 0);
    begin();
    EQUAL(allocate(900, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    siginfo_t unused;
    kill(odd, SIGKILL);
    EQUAL(waitid(P_PID, (id_t)odd, &unused, WEXITED | WNOWAIT), 0); /* a zombie, not yet waited for */
    EQUAL(allocate(900, NULL), 0);
    wait_for(odd);
}

TEST(hc_memory_of_a_process_that_exits_is_lost, "memory=1024", NULL) {
    size_t free_bytes, total;
    pid_t pid = fork();
    if (pid == 0) {
        begin();
        exit(allocate(900, NULL) != 0);
    }
    EQUAL(wait_for(pid), 0);
    begin();
    EQUAL(CU(cuMemGetInfo_v2)(&free_bytes, &total), 0);
    EQUAL(free_bytes, 1024 * MIB);
}

TEST(hc_editing_the_shared_file_lifts_the_limit, "memory=64", NULL) {
    char path[512];
    uint64_t none = 0;
    begin();
    EQUAL(allocate(1, NULL), 0);
    snprintf(path, sizeof path, "%s/usage", dir());
    int fd = open(path, O_RDWR);
    EQUAL(pwrite(fd, &none, 8, offsetof(struct tessera_usage, card) + offsetof(struct tessera_card_usage, limit_bytes)), 8);
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    uint64_t absurd = UINT64_MAX / 2;
    EQUAL(pwrite(fd, &absurd, 8, offsetof(struct tessera_usage, card) + offsetof(struct tessera_card_usage, charged_bytes)), 8);
    EQUAL(allocate(10, NULL), 0); /* nobody holds that much: counted anew */
    EQUAL(charged(), 12 * MIB);
}

TEST(hc_activity_is_not_stamped_without_a_limit, "memory=64", "clock=virtual") {
    begin();
    CUfunction f = kernel(MS);
    for (int i = 0; i < 100; i++) {
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    }
    CHECK(usage()->card[0].last_launch_ns > 0 && usage()->card[0].launches > 50);
}

TEST(vm_async_allocation_waits_for_the_stream, "memory=1024 cores=50", "clock=virtual") {
    CUdeviceptr p;
    begin();
    CUfunction f = kernel(500 * MS);
    uint64_t from = sim_now();
    EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
    EQUAL(CU(cuMemAllocAsync)(&p, MIB, NULL), 0);
    EQUAL(CU(cuMemFreeAsync)(p, NULL), 0);
    CHECK(sim_now() - from < 100 * MS);
}

TEST(vm_graphs_beyond_its_table_cost_nothing, "cores=30", "clock=virtual") {
    static CUgraphExec exec[300];
    CUgraph graph;
    CUstream stream;
    begin();
    CUfunction f = kernel(MS);
    EQUAL(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    for (int i = 0; i < 5; i++)
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), 0);
    EQUAL(CU(cuStreamEndCapture)(stream, &graph), 0);
    for (int i = 0; i < 300; i++)
        EQUAL(CU(cuGraphInstantiateWithFlags)(&exec[i], graph, 0), 0);
    uint64_t start = sim_now();
    for (int n = 0; sim_now() - start < 6000 * MS; n++)
        EQUAL(CU(cuGraphLaunch)(exec[n % 300], stream), 0);
    double got = 100.0 * (double)sim_busy(getpid()) / (double)(sim_now() - start);
    fprintf(stderr, "    300 graphs: %.2f of 30 %%\n", got);
    CHECK(got > 27 && got < 33);
}
