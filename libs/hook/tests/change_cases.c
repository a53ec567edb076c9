/* Limits that change while a program runs. The clock is the simulated one, and the limits are looked
 * at by it too: what is asserted "within 100 ms" does not depend on the machine that runs the test. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define MS 1000000ull
#define VIRTUAL "clock=virtual"

TEST(memory_lowered_counts_within_100_ms, "memory=1024", VIRTUAL) {
    size_t unused, total;
    CUdeviceptr p;
    begin();
    EQUAL(allocate(300, &p), 0);
    set_limits("memory=400");
    sim_sleep(100 * MS);
    EQUAL(allocate(200, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemGetInfo_v2)(&unused, &total), 0);
    CHECK(total == 400 * MIB && unused == 100 * MIB);
    EQUAL(usage()->card[0].limit_bytes, 400 * MIB);
    EQUAL(usage()->slot[0].gaps & TESSERA_GAP_OVER, 0);
}

TEST(memory_raised_counts_within_100_ms, "memory=100", VIRTUAL) {
    size_t unused, total;
    begin();
    EQUAL(allocate(100, NULL), 0);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    set_limits("memory=1024");
    sim_sleep(100 * MS);
    EQUAL(CU(cuMemGetInfo_v2)(&unused, &total), 0);
    CHECK(total == 1024 * MIB && unused == 924 * MIB);
    EQUAL(allocate(900, NULL), 0);
    EQUAL(usage()->card[0].limit_bytes, 1024 * MIB);
}

TEST(memory_lowered_below_use_is_reported_until_it_fits, "memory=1024", VIRTUAL) {
    CUdeviceptr large, small;
    begin();
    EQUAL(allocate(600, &large), 0);
    EQUAL(allocate(200, &small), 0);
    set_limits("memory=500");
    sim_sleep(100 * MS);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(usage()->slot[0].gaps & TESSERA_GAP_OVER);
    CHECK(usage()->card[0].charged_bytes == 800 * MIB && usage()->card[0].limit_bytes == 500 * MIB);
    EQUAL(CU(cuMemFree_v2)(small), 0);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY); /* 600 of 500 */
    EQUAL(CU(cuMemFree_v2)(large), 0);
    EQUAL(allocate(500, NULL), 0);
    sim_sleep(100 * MS);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(usage()->slot[0].gaps & TESSERA_GAP_OVER, 0);
}

/* Pools, too, are held to what is allowed now. */
TEST(memory_lowered_counts_for_pools, "memory=1024", VIRTUAL) {
    CUdeviceptr p;
    begin();
    EQUAL(CU(cuMemAllocAsync)(&p, 300 * MIB, NULL), 0);
    set_limits("memory=400");
    sim_sleep(100 * MS);
    EQUAL(CU(cuMemAllocAsync)(&p, 200 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

static double percent_for(CUfunction f, uint64_t ns) {
    uint64_t start = sim_now(), busy = sim_busy(getpid());
    while (sim_now() - start < ns) {
        EQUAL(CU(cuLaunchKernel)(f, 64, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    }
    return 100.0 * (double)(sim_busy(getpid()) - busy) / (double)(sim_now() - start);
}

/* From `before` to `after` per cent: 100 ms later the new rate is in force, and is what is got. */
static void cores_change(unsigned before, unsigned after) {
    char words[64];
    begin();
    CUfunction f = kernel(MS);
    percent_for(f, 500 * MS);
    double was = percent_for(f, 2000 * MS);
    snprintf(words, sizeof words, "cores=%u", after);
    set_limits(words);
    percent_for(f, 100 * MS);
    EQUAL(usage()->card[0].cores_permille, after * 10);
    double is = percent_for(f, 2000 * MS);
    fprintf(stderr, "    %u %%: %.2f, then %u %%: %.2f\n", before, was, after, is);
    CHECK(was > before - 1.0 && was < before + 1.0 && is > after - 1.5 && is < after + 1.5);
}
TEST(cores_raised_count_within_100_ms, "cores=20", VIRTUAL) { cores_change(20, 60); }
TEST(cores_lowered_count_within_100_ms, "cores=60", VIRTUAL) { cores_change(60, 20); }

TEST(a_limit_that_is_lifted_counts_within_100_ms, "cores=20", VIRTUAL) {
    begin();
    CUfunction f = kernel(MS);
    percent_for(f, 1000 * MS);
    set_limits("cores=20 mode=off");
    percent_for(f, 100 * MS);
    double free_run = percent_for(f, 1000 * MS);
    set_limits("cores=20");
    percent_for(f, 100 * MS);
    double held = percent_for(f, 2000 * MS);
    fprintf(stderr, "    without a limit %.1f, with it again %.1f %%\n", free_run, held);
    CHECK(free_run > 97 && held > 18.5 && held < 21.5);
}

/* A launch that waits for its turn hears of a raised limit while it waits. */
TEST(a_launch_that_waits_hears_of_a_raised_limit, "cores=1", VIRTUAL " participants=2") {
    pid_t pid = fork();
    void (*join)(void) = (void (*)(void))(uintptr_t)driver_get("cuSimJoin");
    void (*leave)(void) = (void (*)(void))(uintptr_t)driver_get("cuSimLeave");
    if (pid == 0) {
        begin();
        CUfunction f = kernel(500 * MS);
        join();
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(CU(cuStreamSynchronize)(NULL), 0);
        uint64_t start = sim_now();
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0); /* 50 s of debt */
        leave();
        _exit(sim_now() - start > 3000 * MS);
    }
    CU(cuInit)(0);
    join();
    sim_sleep(2000 * MS);
    set_limits("cores=90");
    sim_sleep(2000 * MS);
    leave();
    EQUAL(wait_for(pid), 0);
}

/* Graphs and kernels that are not what they were when they were measured. */
TEST(vm_graphs_changed_after_they_were_made_cost_what_they_do, "cores=30", VIRTUAL) {
    begin();
    CUfunction quick = kernel(20000), slow = kernel(5 * MS);
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = quick, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32,
                                         .blockDimY = 1, .blockDimZ = 1};
    EQUAL(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuGraphCreate)(&graph, 0), 0);
    EQUAL(CU(cuGraphAddKernelNode_v2)(&node, graph, NULL, 0, &params), 0);
    EQUAL(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0), 0);
    for (int i = 0; i < 400; i++)
        EQUAL(CU(cuGraphLaunch)(exec, stream), 0);
    EQUAL(CU(cuStreamSynchronize)(stream), 0);
    params.func = slow;
    EQUAL(CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &params), 0);
    uint64_t start = sim_now(), busy = sim_busy(getpid());
    while (sim_now() - start < 10000 * MS) {
        EQUAL(CU(cuGraphLaunch)(exec, stream), 0);
        EQUAL(CU(cuStreamSynchronize)(stream), 0);
    }
    double got = 100.0 * (double)(sim_busy(getpid()) - busy) / (double)(sim_now() - start);
    fprintf(stderr, "    %.2f of 30 %%\n", got);
    CHECK(got > 28 && got < 32);
}
