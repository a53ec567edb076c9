/* GPU time on the simulated machine's virtual clock: what a container gets against its limit. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define MS 1000000ull

static CUresult launch(CUfunction f, CUstream stream) {
    return CU(cuLaunchKernel)(f, 64, 1, 1, 128, 1, 1, 0, stream, NULL, NULL);
}

/* Percent of the card that this process gets over `seconds`, after a second to settle. */
static double share(CUfunction f, int sync, int streams, double seconds) {
    CUstream stream[8] = {0};
    PFN_cuLaunchKernel call = CU(cuLaunchKernel);
    PFN_cuStreamSynchronize synchronize = CU(cuStreamSynchronize);
    for (int i = 1; i < streams; i++)
        EQUAL(CU(cuStreamCreate)(&stream[i], CU_STREAM_NON_BLOCKING), 0);
    uint64_t start = sim_now(), from = start + 1000 * MS, end = from + (uint64_t)(seconds * 1e9), busy = 0, begun = 0;
    for (long n = 0;; n++) {
        uint64_t now = sim_now();
        if (!begun && now >= from) {
            busy = sim_busy(getpid());
            begun = now;
        }
        if (now >= end)
            break;
        EQUAL(call(f, 64, 1, 1, 128, 1, 1, 0, stream[n % streams], NULL, NULL), 0);
        if (sync)
            EQUAL(synchronize(stream[n % streams]), 0);
    }
    uint64_t now = sim_now();
    return 100.0 * (double)(sim_busy(getpid()) - busy) / (double)(now - begun);
}

static void expect_share(uint64_t ns, int sync, int streams, double seconds, double wanted, double tolerance) {
    begin();
    double got = share(kernel(ns), sync, streams, seconds);
    fprintf(stderr, "    %llu us %s, %d streams: %.2f of %.0f %%\n", (unsigned long long)ns / 1000, sync ? "sync" : "async",
            streams, got, wanted);
    CHECK(got > wanted - tolerance && got < wanted + tolerance);
}

#define VIRTUAL "clock=virtual"
TEST(hc_one_block_kernels_never_drain_the_bucket, "cores=30", VIRTUAL) { expect_share(5000, 1, 1, 1, 30, 3); }
TEST(cores_50us_async_30, "cores=30", VIRTUAL) { expect_share(50000, 0, 1, 2, 30, 1); }
TEST(cores_1ms_async_50, "cores=50", VIRTUAL) { expect_share(MS, 0, 1, 3, 50, 1); }
TEST(cores_1ms_sync_25, "cores=25", VIRTUAL) { expect_share(MS, 1, 1, 3, 25, 1); }
TEST(cores_20ms_sync_75, "cores=75", VIRTUAL) { expect_share(20 * MS, 1, 1, 6, 75, 1.5); }
TEST(cores_20ms_async_10, "cores=10", VIRTUAL) { expect_share(20 * MS, 0, 1, 10, 10, 1); }
TEST(cores_500ms_sync_30, "cores=30", VIRTUAL) { expect_share(500 * MS, 1, 1, 40, 30, 2); }
TEST(cores_1ms_four_streams_50, "cores=50", VIRTUAL) { expect_share(MS, 0, 4, 3, 50, 2); }
TEST(no_limit_means_no_limit, "memory=1024", VIRTUAL) { expect_share(MS, 0, 1, 1, 100, 2); }

TEST(several_processes_share_one_bucket, "cores=40", VIRTUAL " participants=3") {
    int ends[2];
    double sum = 0;
    EQUAL(pipe(ends), 0);
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            begin();
            CUfunction f = kernel(2 * MS);
            ((void (*)(void))(uintptr_t)driver_get("cuSimJoin"))();
            double got = share(f, 1, 1, 10);
            _exit(write(ends[1], &got, sizeof got) != sizeof got);
        }
    for (int i = 0; i < 3; i++) {
        double got;
        EQUAL(read(ends[0], &got, sizeof got), sizeof got);
        sum += got;
    }
    fprintf(stderr, "    three processes: %.2f of 40 %%\n", sum);
    CHECK(sum > 38 && sum < 42);
}

TEST(hc_65536_squared_grid_is_not_free, "cores=30", VIRTUAL) {
    begin();
    CUfunction f = kernel(2 * MS);
    uint64_t start = sim_now();
    for (int i = 0; i < 200; i++)
        EQUAL(CU(cuLaunchKernel)(f, 65536, 65535, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
    CHECK(sim_now() - start > 1000 * MS);
    (void)launch;
}

TEST(hc_graphs_are_never_limited, "cores=30", VIRTUAL) {
    begin();
    CUfunction f = kernel(MS);
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    EQUAL(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    for (int i = 0; i < 10; i++)
        EQUAL(launch(f, stream), 0);
    EQUAL(CU(cuStreamEndCapture)(stream, &graph), 0);
    EQUAL(sim_busy(getpid()), 0);
    EQUAL(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0), 0);
    uint64_t start = sim_now(), end = start + 4000 * MS;
    while (sim_now() < end)
        EQUAL(CU(cuGraphLaunch)(exec, stream), 0);
    double got = 100.0 * (double)sim_busy(getpid()) / (double)(sim_now() - start);
    fprintf(stderr, "    graphs: %.2f of 30 %%\n", got);
    CHECK(got > 28 && got < 32.5);
    EQUAL(CU(cuGraphExecDestroy)(exec), 0);
}

TEST(a_capture_is_not_disturbed_by_the_limiter, "cores=20", VIRTUAL) {
    begin();
    CUfunction f = kernel(300000);
    CUstream captured, other;
    CUgraph graph;
    size_t nodes = 0;
    EQUAL(CU(cuStreamCreate)(&captured, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(launch(f, other), 0);
    EQUAL(CU(cuStreamBeginCapture_v2)(captured, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    for (int i = 0; i < 50; i++) {
        EQUAL(launch(f, captured), 0);
        EQUAL(launch(f, other), 0);
    }
    EQUAL(CU(cuStreamEndCapture)(captured, &graph), 0);
    EQUAL(CU(cuGraphGetNodes)(graph, NULL, &nodes), 0);
    EQUAL(nodes, 50);
}

TEST(cooperative_and_ex_launches_are_limited, "cores=20", VIRTUAL) {
    begin();
    CUfunction f = kernel(5 * MS);
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
    uint64_t start = sim_now();
    for (int i = 0; i < 50; i++) {
        EQUAL(CU(cuLaunchCooperativeKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL), 0);
        EQUAL(CU(cuLaunchKernelEx)(&config, f, NULL, NULL), 0);
        EQUAL(CU(cuLaunchKernel_ptsz)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
    }
    CHECK(sim_now() - start > 3000 * MS);
}

TEST(cores_change_while_a_program_runs, "cores=20", VIRTUAL) {
    begin();
    CUfunction f = kernel(MS);
    double before = share(f, 1, 1, 2);
    set_limits("cores=60");
    sim_sleep(150 * MS);
    usleep(150000);
    double after = share(f, 1, 1, 2);
    fprintf(stderr, "    20 %%: %.2f, then 60 %%: %.2f\n", before, after);
    CHECK(before > 19 && before < 21 && after > 58.5 && after < 61.5);
}

static int rate_in_force(CUfunction f) {
    sim_sleep(30 * MS); /* the limits are looked at again */
    EQUAL(launch(f, NULL), 0);
    return (int)usage()->card[0].cores_permille;
}

static int is_over(void *f) {
    return rate_in_force((CUfunction)f) == 200;
}

/* Nobody changes the file when the loan is over; a busy machine may need a longer one to see it. */
TEST(loans_end_by_themselves, "cores=20 mode=elastic", VIRTUAL) {
    begin();
    CUfunction f = kernel(MS);
    int seen = 0;
    for (int ms = 200; ms < 60000 && !seen; ms *= 4) {
        char words[80];
        snprintf(words, sizeof words, "cores=20 mode=elastic lent=600 lent_ms=%d", ms);
        set_limits(words);
        seen = rate_in_force(f) == 800;
    }
    CHECK(seen && until(is_over, f));
}

TEST(usage_tells_the_gpu_time, "cores=50", VIRTUAL) {
    begin();
    CUfunction f = kernel(MS);
    share(f, 1, 1, 2);
    double told = (double)usage()->card[0].gpu_ns, real_busy = (double)sim_busy(getpid());
    fprintf(stderr, "    told %.1f ms of %.1f, %llu launches\n", told / 1e6, real_busy / 1e6,
            (unsigned long long)usage()->card[0].launches);
    CHECK(told > real_busy * 0.97 && told < real_busy * 1.03);
    CHECK(usage()->slot[0].throttled_ns > 500 * MS);
}
