/* What is forgotten together with its handle, which the driver may give to another. */
#include "harness.h"

#define MS 1000000ull
#define STREAMS 250

static CUresult launch(CUfunction f, CUstream stream) {
    return CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

/* A stream has its last event until it is destroyed, and events are not without end. */
static void still_measured_after(PFN_cuStreamDestroy_v2 destroy) {
    CUstream stream[STREAMS], last;
    CUfunction f = kernel(MS), other = kernel(5 * MS);
    for (int i = 0; i < STREAMS; i++) {
        EQUAL(CU(cuStreamCreate)(&stream[i], CU_STREAM_NON_BLOCKING), 0);
        EQUAL(launch(f, stream[i]), 0);
        EQUAL(CU(cuStreamSynchronize)(stream[i]), 0);
    }
    for (int i = 0; i < STREAMS; i++)
        EQUAL(destroy(stream[i]), 0);
    EQUAL(CU(cuStreamCreate)(&last, CU_STREAM_NON_BLOCKING), 0);
    uint64_t counted = usage()->card[0].gpu_ns;
    for (int i = 0; i < 20; i++) {
        EQUAL(launch(other, last), 0);
        EQUAL(CU(cuStreamSynchronize)(last), 0);
    }
    sim_sleep(100 * MS);
    EQUAL(launch(other, last), 0);
    counted = usage()->card[0].gpu_ns - counted;
    fprintf(stderr, "    counted %.1f ms of 105\n", (double)counted / 1e6);
    CHECK(counted > 95 * MS);
    EQUAL(destroy(last), 0);
}

TEST(streams_that_are_destroyed_leave_their_events, "cores=90", "clock=virtual") {
    begin();
    still_measured_after(CU(cuStreamDestroy_v2));
}

TEST(streams_that_the_first_version_destroys_leave_their_events, "cores=90", "clock=virtual") {
    begin();
    still_measured_after(CU(cuStreamDestroy));
}

static CUgraphExec executable(CUgraph graph) {
    CUgraphExec exec;
    EQUAL(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0), 0);
    return exec;
}

/* A graph that takes no memory has the handle of one that took 600 MiB. */
TEST(a_graph_that_is_destroyed_leaves_nothing_to_the_next, "memory=1024", NULL) {
    CUgraph large, empty;
    CUgraphNode node, release;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = 600 * MIB};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    begin();
    EQUAL(CU(cuGraphCreate)(&large, 0), 0);
    EQUAL(CU(cuGraphCreate)(&empty, 0), 0);
    EQUAL(CU(cuGraphAddMemAllocNode)(&node, large, NULL, 0, &params), 0);
    EQUAL(CU(cuGraphAddMemFreeNode)(&release, large, &node, 1, params.dptr), 0);
    EQUAL(CU(cuGraphAddEmptyNode)(&node, empty, NULL, 0), 0);
    CUgraphExec first = executable(large);
    EQUAL(allocate(500, NULL), 0);
    EQUAL(CU(cuGraphLaunch)(first, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuGraphExecDestroy)(first), 0);
    CUgraphExec second = executable(empty);
    CHECK(first == second);
    EQUAL(CU(cuGraphLaunch)(second, NULL), 0);
}
