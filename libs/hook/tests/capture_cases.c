/* Captures, however they were begun: nothing of ours goes into one, and measuring goes on after it. */
#include "harness.h"

#define MS 1000000ull
#define VIRTUAL "clock=virtual"

static CUstream captured, other;

static CUresult launch(CUfunction f, CUstream stream) {
    return CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

static void begin_streams(void) {
    begin();
    EQUAL(CU(cuStreamCreate)(&captured, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING), 0);
}

/* Twenty kernels into the capture, one after the other with kernels beside it. */
static CUgraph capture(CUfunction f) {
    CUgraph graph;
    size_t nodes = 0;
    for (int i = 0; i < 20; i++) {
        EQUAL(launch(f, captured), 0);
        EQUAL(launch(f, other), 0);
        sim_sleep(25 * MS);
    }
    EQUAL(CU(cuStreamEndCapture)(captured, &graph), 0);
    EQUAL(CU(cuGraphGetNodes)(graph, NULL, &nodes), 0);
    EQUAL(nodes, 20);
    return graph;
}

/* What is counted is what ran, and no gap is set. */
static void still_measured(CUfunction f) {
    uint64_t counted = usage()->card[0].gpu_ns, ran = sim_busy(0);
    for (int i = 0; i < 100; i++) {
        EQUAL(launch(f, captured), 0);
        EQUAL(CU(cuStreamSynchronize)(captured), 0);
    }
    sim_sleep(100 * MS);
    EQUAL(launch(f, captured), 0);
    counted = usage()->card[0].gpu_ns - counted;
    ran = sim_busy(0) - ran;
    fprintf(stderr, "    counted %.1f ms of %.1f\n", (double)counted / 1e6, (double)ran / 1e6);
    CHECK(counted > ran * 95 / 100 && counted < ran * 105 / 100);
    EQUAL(usage()->slot[0].gaps, 0);
}

TEST(a_capture_of_unknown_kind_does_not_end_measuring, "cores=50", VIRTUAL) {
    int (*begin_unknown)(CUstream) = (int (*)(CUstream))(uintptr_t)driver_get("cuSimBeginCapture");
    begin_streams();
    CUfunction f = kernel(5 * MS);
    EQUAL(launch(f, captured), 0);
    EQUAL(CU(cuStreamSynchronize)(captured), 0);
    for (int pass = 0; pass < 3; pass++) {
        EQUAL(begin_unknown(captured), 0);
        capture(f);
    }
    still_measured(f);
}

/* What went into the capture did not run: it is not paid for. */
TEST(a_capture_of_unknown_kind_costs_no_time, "cores=10", VIRTUAL) {
    int (*begin_unknown)(CUstream) = (int (*)(CUstream))(uintptr_t)driver_get("cuSimBeginCapture");
    CUgraph graph;
    begin_streams();
    CUfunction f = kernel(5 * MS);
    for (int i = 0; i < 20; i++) {
        EQUAL(launch(f, captured), 0);
        EQUAL(CU(cuStreamSynchronize)(captured), 0);
    }
    EQUAL(begin_unknown(captured), 0);
    EQUAL(launch(f, captured), 0);
    uint64_t start = sim_now();
    for (int i = 0; i < 200; i++)
        EQUAL(launch(f, captured), 0);
    CHECK(sim_now() - start < 200 * MS); /* at 10 % they would take 10 s */
    EQUAL(CU(cuStreamEndCapture)(captured, &graph), 0);
}

TEST(a_graph_that_is_captured_again_is_left_alone, "cores=50", VIRTUAL " cuda=13050") {
    begin_streams();
    CUfunction f = kernel(5 * MS);
    EQUAL(launch(f, captured), 0);
    EQUAL(CU(cuStreamBeginCapture_v2)(captured, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    CUgraph graph = capture(f);
    EQUAL(CU(cuStreamBeginRecaptureToGraph)(captured, CU_STREAM_CAPTURE_MODE_GLOBAL, graph, NULL, NULL), 0);
    CHECK(capture(f) == graph);
    EQUAL(CU(cuStreamBeginCaptureToCig)(captured, (CUstreamCigCaptureParams *)&graph), CUDA_ERROR_NOT_SUPPORTED);
    still_measured(f);
}

enum way { PLAIN, OF_A_THREAD, TO_CIG, TO_CIG_OF_A_THREAD, AGAIN, AGAIN_OF_A_THREAD, WAYS };

static CUresult begin_in(enum way way, CUgraph graph) {
    CUstreamCigCaptureParams *drawn = (CUstreamCigCaptureParams *)&graph;
    switch (way) {
    case PLAIN: return CU(cuStreamBeginCapture_v2)(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
    case OF_A_THREAD: return CU(cuStreamBeginCapture_v2_ptsz)(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
    case TO_CIG: return CU(cuStreamBeginCaptureToCig)(captured, drawn);
    case TO_CIG_OF_A_THREAD: return CU(cuStreamBeginCaptureToCig_ptsz)(captured, drawn);
    case AGAIN: return CU(cuStreamBeginRecaptureToGraph)(captured, CU_STREAM_CAPTURE_MODE_GLOBAL, graph, NULL, NULL);
    default: return CU(cuStreamBeginRecaptureToGraph_ptsz)(captured, CU_STREAM_CAPTURE_MODE_GLOBAL, graph, NULL, NULL);
    }
}

static CUresult end_of(enum way way, CUgraph *graph) {
    switch (way) {
    case TO_CIG: return CU(cuStreamEndCaptureToCig)(captured);
    case TO_CIG_OF_A_THREAD: return CU(cuStreamEndCaptureToCig_ptsz)(captured);
    case PLAIN:
    case AGAIN: return CU(cuStreamEndCapture)(captured, graph);
    default: return CU(cuStreamEndCapture_ptsz)(captured, graph);
    }
}

/* Each launch of such a kernel is measured, and counted at once. */
TEST(what_goes_into_a_capture_of_any_kind_is_not_counted, "cores=50", VIRTUAL " cuda=13050 cig=1") {
    CUgraph graph = NULL;
    begin_streams();
    CUfunction f = kernel(5 * MS);
    EQUAL(launch(f, captured), 0);
    EQUAL(CU(cuStreamSynchronize)(captured), 0);
    for (int way = 0; way < WAYS; way++) {
        EQUAL(launch(f, captured), 0);
        EQUAL(CU(cuStreamSynchronize)(captured), 0);
        uint64_t launches = usage()->slot[0].launches;
        EQUAL(begin_in(way, graph), 0);
        EQUAL(launch(f, captured), 0);
        EQUAL(end_of(way, &graph), 0);
        EQUAL(usage()->slot[0].launches, launches);
    }
}

/* Whether a stream is captured is a call of the driver's, which a launch makes while there are captures only. */
TEST(after_the_last_capture_no_launch_asks_for_one, "memory=1024", "cuda=13050 cig=1") {
    uint64_t (*queries)(void) = (uint64_t(*)(void))(uintptr_t)driver_get("cuSimCaptureQueries");
    CUgraph graph = NULL;
    begin_streams();
    CUfunction f = kernel(1000);
    for (int way = 0; way < WAYS; way++) {
        EQUAL(begin_in(way, graph), 0);
        EQUAL(end_of(way, &graph), 0);
        uint64_t before = queries();
        for (int i = 0; i < 1000; i++)
            EQUAL(launch(f, captured), 0);
        CHECK(queries() - before < 500); /* of those that are measured */
        EQUAL(CU(cuStreamSynchronize)(captured), 0);
    }
}
