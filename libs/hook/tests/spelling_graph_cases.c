/* However a graph is made, its memory is known before it is launched; however a capture begins, the limiter's
 * events stay out of it. */
#include <string.h>

#include "harness.h"

#define MS 1000000ull

static CUgraphExec instantiate(int how, CUgraph graph) {
    CUgraphExec exec = NULL;
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    if (how == 0)
        EQUAL(CU(cuGraphInstantiate)(&exec, graph, NULL, NULL, 0), 0);
    else if (how == 1)
        EQUAL(CU(cuGraphInstantiate_v2)(&exec, graph, NULL, NULL, 0), 0);
    else if (how == 2)
        EQUAL(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0), 0);
    else if (how == 3)
        EQUAL(CU(cuGraphInstantiateWithParams)(&exec, graph, &params), 0);
    else
        EQUAL(CU(cuGraphInstantiateWithParams_ptsz)(&exec, graph, &params), 0);
    return exec;
}

static CUgraphNodeParams holding(size_t mib) {
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    params.alloc.bytesize = mib * MIB;
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return params;
}

static void too_large_a_graph(int how) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeParams params = holding(600);
    begin();
    EQUAL(CU(cuGraphCreate)(&graph, 0), 0);
    EQUAL(CU(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &params.alloc), 0);
    CUgraphExec exec = instantiate(how, graph);
    EQUAL(allocate(500, NULL), 0);
    uint64_t before = sim_used();
    EQUAL(CU(cuGraphUpload)(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuGraphUpload_ptsz)(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuGraphLaunch)(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuGraphLaunch_ptsz)(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(sim_used(), before);
}
TEST(a_graph_of_the_first_version_must_fit, "memory=1024", NULL) { too_large_a_graph(0); }
TEST(a_graph_of_the_second_version_must_fit, "memory=1024", NULL) { too_large_a_graph(1); }
TEST(a_graph_with_flags_must_fit, "memory=1024", NULL) { too_large_a_graph(2); }
TEST(a_graph_with_parameters_must_fit, "memory=1024", NULL) { too_large_a_graph(3); }
TEST(a_graph_with_parameters_of_a_thread_must_fit, "memory=1024", NULL) { too_large_a_graph(4); }

TEST(nodes_of_every_kind_that_could_never_fit_are_refused, "memory=64", NULL) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeParams large = holding(65), small = holding(40);
    begin();
    EQUAL(CU(cuGraphCreate)(&graph, 0), 0);
    EQUAL(CU(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &large.alloc), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuGraphAddNode)(&node, graph, NULL, 0, &large), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuGraphAddNode_v2)(&node, graph, NULL, NULL, 0, &large), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuGraphAddNode)(&node, graph, NULL, 0, &small), 0);
    EQUAL(usage()->card[0].denials, 3);
}

/* captures: the limiter's events stay out of every one, however it began */

static void captured(int how) {
    CUstream stream;
    CUgraph graph;
    size_t nodes = 0;
    char log[512];
    snprintf(log, sizeof log, "%s/log", dir());
    setenv("TESSERA_LOG_FILE", log, 1);
    setenv("TESSERA_LOG_LEVEL", "3", 1);
    begin();
    CUfunction f = kernel(300000);
    EQUAL(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuGraphCreate)(&graph, 0), 0);
    EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), 0);
    if (how == 0)
        EQUAL(CU(cuStreamBeginCapture)(stream), 0);
    else if (how == 1)
        EQUAL(CU(cuStreamBeginCapture_ptsz)(stream), 0);
    else if (how == 2)
        EQUAL(CU(cuStreamBeginCapture_v2_ptsz)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    else if (how == 3)
        EQUAL(CU(cuStreamBeginCaptureToGraph)(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    else if (how == 5)
        EQUAL(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    else
        EQUAL(CU(cuStreamBeginCaptureToGraph_ptsz)(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    uint64_t before = usage()->card[0].launches, busy = sim_busy(getpid());
    for (int i = 0; i < 20; i++)
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), 0);
    EQUAL(CU(cuStreamEndCapture_ptsz)(stream, &graph), 0);
    EQUAL(CU(cuGraphGetNodes)(graph, NULL, &nodes), 0);
    EQUAL(nodes, 20);
    CHECK(usage()->card[0].launches <= before + 1 && sim_busy(getpid()) <= busy + 300000);
    char line[512] = "";
    FILE *file = fopen(log, "r"); /* it was seen to begin, and not found out by a launch */
    while (file && fgets(line, sizeof line, file))
        CHECK(!strstr(line, "does not know"));
}
#define CAPTURED(name, how) \
    TEST(a_capture_begun_##name##_stays_clean, "cores=20", "clock=virtual") { captured(how); }
CAPTURED(by_the_first_version, 0) CAPTURED(by_its_twin, 1) CAPTURED(by_the_twin_of_the_second, 2)
CAPTURED(by_the_second, 5)
CAPTURED(into_a_graph, 3) CAPTURED(into_a_graph_by_the_twin, 4)
