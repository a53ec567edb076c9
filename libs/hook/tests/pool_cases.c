/* Pools and graphs: what they hold is charged before the driver is asked, and never beyond the limit. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static CUmemoryPool new_pool(void) {
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    EQUAL(CU(cuMemPoolCreate)(&pool, &props), 0);
    return pool;
}

/* The pool grows by 32 MiB: of the last 24 MiB of the tile it cannot give any. */
TEST(a_pool_that_grows_in_large_pieces_is_refused_without_a_trace, "memory=88", NULL) {
    CUdeviceptr p, q;
    begin();
    uint64_t before = sim_used();
    CUmemoryPool pool = new_pool();
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, 64 * MIB, pool, NULL), 0);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&q, 4 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(charged(), 64 * MIB);
    EQUAL(charged(), sim_used() - before);
    EQUAL(usage()->card[0].peak_bytes <= 88 * MIB, 1);
    EQUAL(CU(cuMemFreeAsync)(p, NULL), 0);
    EQUAL(CU(cuMemPoolDestroy)(pool), 0);
    EQUAL(charged(), 0);
}

TEST(pools_of_many_processes_never_pass_the_limit, "memory=1024", NULL) {
    pid_t pids[4];
    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            unsigned s = (unsigned)i * 7919 + 1;
            begin();
            CUmemoryPool pool = new_pool();
            for (int n = 0; n < 1500; n++) {
                CUdeviceptr p[4];
                int held = 0;
                for (; held < 4; held++) {
                    s = s * 1103515245u + 12345u;
                    if (CU(cuMemAllocFromPoolAsync)(&p[held], MIB + (s >> 5) % (160 * MIB), pool, NULL) != 0)
                        break;
                }
                if (charged() > 1024 * MIB || usage()->card[0].peak_bytes > 1024 * MIB)
                    _exit(3);
                while (held)
                    CU(cuMemFreeAsync)(p[--held], NULL);
                if (n % 3 == 0)
                    CU(cuStreamSynchronize)(NULL);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < 4; i++)
        EQUAL(wait_for(pids[i]), 0);
    begin();
    EQUAL(allocate(1024, NULL), 0);
}

TEST(memory_that_outlives_its_pool_stays_charged, "memory=1024", NULL) {
    CUdeviceptr p, q;
    begin();
    uint64_t before = sim_used();
    CUmemoryPool pool = new_pool();
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, 600 * MIB, pool, NULL), 0);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&q, 100 * MIB, pool, NULL), 0);
    EQUAL(CU(cuMemPoolDestroy)(pool), 0);
    EQUAL(charged(), 700 * MIB);
    EQUAL(charged(), sim_used() - before);
    EQUAL(allocate(500, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemFreeAsync)(p, NULL), 0);
    EQUAL(CU(cuMemFree_v2)(q), 0);
    EQUAL(charged(), 0);
    EQUAL(allocate(1024, NULL), 0);
}

/* A graph that holds `mib` between its nodes; freed at its end if wanted. */
static CUgraphExec graph_of(size_t mib, int freed, unsigned long long flags) {
    CUgraph graph;
    CUgraphNode alloc, release;
    CUgraphExec exec;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = mib * MIB};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    EQUAL(CU(cuGraphCreate)(&graph, 0), 0);
    EQUAL(CU(cuGraphAddMemAllocNode)(&alloc, graph, NULL, 0, &params), 0);
    if (freed)
        EQUAL(CU(cuGraphAddMemFreeNode)(&release, graph, &alloc, 1, params.dptr), 0);
    EQUAL(CU(cuGraphInstantiateWithFlags)(&exec, graph, flags), 0);
    return exec;
}

TEST(hc_graph_memory_is_uncounted, "memory=1024", NULL) {
    begin();
    uint64_t before = sim_used();
    CUgraphExec exec = graph_of(600, 1, 0), other = graph_of(700, 0, 0);
    EQUAL(charged(), 0);
    EQUAL(CU(cuGraphLaunch)(exec, NULL), 0);
    EQUAL(charged(), 600 * MIB);
    EQUAL(charged(), sim_used() - before);
    EQUAL(usage()->slot[0].bytes[TESSERA_GRAPH], 600 * MIB);
    EQUAL(CU(cuGraphLaunch)(exec, NULL), 0); /* the same memory again */
    EQUAL(charged(), 600 * MIB);
    EQUAL(CU(cuGraphUpload)(other, NULL), 0);
    EQUAL(charged(), 700 * MIB);
    EQUAL(CU(cuGraphLaunch)(other, NULL), 0);
    EQUAL(charged(), sim_used() - before);
    EQUAL(CU(cuGraphExecDestroy)(exec), 0);
    EQUAL(CU(cuGraphExecDestroy)(other), 0);
}

TEST(a_graph_that_does_not_fit_is_not_launched, "memory=1024", NULL) {
    CUdeviceptr p;
    begin();
    uint64_t before = sim_used();
    CUgraphExec exec = graph_of(600, 1, 0);
    EQUAL(allocate(500, &p), 0);
    EQUAL(CU(cuGraphLaunch)(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuGraphUpload)(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(charged(), 500 * MIB);
    EQUAL(charged(), sim_used() - before);
    EQUAL(usage()->card[0].peak_bytes, 500 * MIB);
    EQUAL(CU(cuMemFree_v2)(p), 0);
    EQUAL(CU(cuGraphLaunch)(exec, NULL), 0);
    EQUAL(allocate(500, &p), 0); /* what graphs hold and do not use is given back first */
    EQUAL(charged(), sim_used() - before);
    EQUAL(charged(), 500 * MIB);
}

TEST(a_graph_that_frees_on_launch_needs_its_memory_once, "memory=1024", NULL) {
    begin();
    CUgraphExec exec = graph_of(700, 0, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    for (int i = 0; i < 3; i++)
        EQUAL(CU(cuGraphLaunch)(exec, NULL), 0);
    EQUAL(charged(), 700 * MIB);
}

TEST(a_node_that_could_never_fit_is_refused_when_it_is_made, "memory=64", NULL) {
    CUgraph graph;
    CUgraphNode node;
    CUstream stream;
    CUdeviceptr p;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = 65 * MIB};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    begin();
    EQUAL(CU(cuGraphCreate)(&graph, 0), 0);
    EQUAL(CU(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &params), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    EQUAL(CU(cuMemAllocAsync)(&p, 65 * MIB, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAllocAsync)(&p, 60 * MIB, stream), 0);
    EQUAL(CU(cuMemFreeAsync)(p, stream), 0);
    EQUAL(CU(cuStreamEndCapture)(stream, &graph), 0);
    EQUAL(charged(), 0);
}

TEST(a_free_that_is_captured_frees_nothing_yet, "memory=1024", NULL) {
    CUdeviceptr p;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    begin();
    uint64_t before = sim_used();
    EQUAL(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuMemAllocAsync)(&p, 600 * MIB, stream), 0);
    EQUAL(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    EQUAL(CU(cuMemFreeAsync)(p, stream), 0);
    EQUAL(CU(cuStreamEndCapture)(stream, &graph), 0);
    EQUAL(charged(), sim_used() - before);
    EQUAL(CU(cuMemAllocAsync)(&p, 600 * MIB, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0), 0);
    EQUAL(CU(cuGraphLaunch)(exec, stream), 0);
    EQUAL(CU(cuStreamSynchronize)(stream), 0);
    EQUAL(CU(cuMemAllocAsync)(&p, 600 * MIB, stream), 0);
    EQUAL(charged(), sim_used() - before);
}

/* Ended by the wrong thread, or on a stream that only joined, a capture goes on: the limiter must
 * still keep its events out of it. */
TEST(a_capture_that_could_not_be_ended_is_not_forgotten, "cores=20", "clock=virtual") {
    CUstream origin, joined;
    CUevent event;
    CUgraph graph;
    size_t nodes = 0;
    begin();
    CUfunction f = kernel(300000);
    EQUAL(CU(cuStreamCreate)(&origin, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuStreamCreate)(&joined, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuEventCreate)(&event, 0), 0);
    EQUAL(CU(cuStreamBeginCapture_v2)(origin, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    CHECK(CU(cuStreamEndCapture)(joined, &graph) != 0);
    for (int i = 0; i < 20; i++)
        EQUAL(CU(cuLaunchKernel)(f, 8, 1, 1, 32, 1, 1, 0, origin, NULL, NULL), 0);
    EQUAL(CU(cuStreamEndCapture)(origin, &graph), 0);
    EQUAL(CU(cuGraphGetNodes)(graph, NULL, &nodes), 0);
    EQUAL(nodes, 20);
    EQUAL(CU(cuStreamBeginCapture_v2)(origin, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    EQUAL(CU(cuEventRecord)(event, origin), 0);
    EQUAL(CU(cuStreamWaitEvent)(joined, event, 0), 0);
    EQUAL(CU(cuStreamEndCapture)(joined, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CU(cuLaunchKernel)(f, 8, 1, 1, 32, 1, 1, 0, origin, NULL, NULL);
    EQUAL(CU(cuStreamEndCapture)(origin, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EQUAL(CU(cuLaunchKernel)(f, 8, 1, 1, 32, 1, 1, 0, origin, NULL, NULL), 0);
}
