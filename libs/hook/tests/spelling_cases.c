/* Every spelling of a function is limited as the one that everybody uses: first versions, later ones,
 * the twins of the per-thread default stream. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

#define MS 1000000ull

/* memory */

TEST(memory_of_the_first_version_is_limited, "memory=64", NULL) {
    CUdeviceptr_v1 p, q;
    unsigned pitch;
    begin();
    EQUAL(CU(cuMemAlloc)(&p, 65 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAlloc)(&p, 20 * MIB), 0);
    EQUAL(charged(), 20 * MIB);
    EQUAL(CU(cuMemAllocPitch)(&q, &pitch, 1 << 20, 60, 4), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAllocPitch)(&q, &pitch, 1 << 20, 30, 4), 0);
    EQUAL(charged(), 50 * MIB);
    EQUAL(CU(cuMemFree)(p), 0);
    EQUAL(CU(cuMemFree)(q), 0);
    EQUAL(charged(), 0);
}

TEST(arrays_of_the_first_version_are_limited, "memory=64", NULL) {
    CUarray a;
    CUDA_ARRAY_DESCRIPTOR_v1 flat = {.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR_v1 cube = {.Width = 256, .Height = 256, .Depth = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    begin();
    EQUAL(CU(cuArrayCreate)(&a, &flat), 0);
    CHECK(charged() >= 16 * MIB && charged() < 17 * MIB);
    EQUAL(CU(cuArrayDestroy)(a), 0);
    EQUAL(CU(cuArray3DCreate)(&a, &cube), 0);
    CHECK(charged() >= 16 * MIB && charged() < 17 * MIB);
    flat.Height = 4096;
    EQUAL(CU(cuArrayCreate)(&a, &flat), CUDA_ERROR_OUT_OF_MEMORY);
    cube.Depth = 64;
    EQUAL(CU(cuArray3DCreate)(&a, &cube), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(twins_of_pools_are_limited, "memory=1024", NULL) {
    CUdeviceptr p, q;
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    begin();
    uint64_t before = sim_used();
    EQUAL(CU(cuMemPoolCreate)(&pool, &props), 0);
    EQUAL(CU(cuMemAllocFromPoolAsync_ptsz)(&q, 1025 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAllocFromPoolAsync_ptsz)(&p, 600 * MIB, pool, NULL), 0);
    CHECK(charged() >= 600 * MIB && charged() == sim_used() - before);
    EQUAL(CU(cuMemFreeAsync_ptsz)(p, NULL), 0);
    EQUAL(CU(cuStreamSynchronize_ptsz)(NULL), 0); /* the pool has given back, and is known to have */
    EQUAL(charged(), 0);
}

TEST(the_twin_frees_what_outlived_its_pool, "memory=1024", NULL) {
    CUdeviceptr p;
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    begin();
    EQUAL(CU(cuMemPoolCreate)(&pool, &props), 0);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, 600 * MIB, pool, NULL), 0);
    EQUAL(CU(cuMemPoolDestroy)(pool), 0);
    EQUAL(charged(), 600 * MIB);
    EQUAL(CU(cuMemFreeAsync_ptsz)(p, NULL), 0);
    EQUAL(charged(), 0);
}

TEST(a_pool_that_gave_back_with_its_context_is_known_to_have, "memory=1024", NULL) {
    CUdeviceptr p;
    begin();
    EQUAL(CU(cuMemAllocAsync)(&p, 600 * MIB, NULL), 0);
    EQUAL(CU(cuMemFreeAsync)(p, NULL), 0);
    EQUAL(CU(cuCtxSynchronize)(), 0);
    EQUAL(charged(), 0);
}

/* A pool of another card than the current one is charged there. */
TEST(a_pool_belongs_to_its_card, "memory=1024", "cards=2") {
    char a[64], b[64], command[1024];
    CUdeviceptr p;
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = 1;
    uuid_of(0, a);
    uuid_of(1, b);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s/tessera-limits %s/limits card=%s memory=1000 card=%s memory=300",
             getenv("TEST_BUILD"), dir(), a, b);
    EQUAL(system(command), 0);
    begin();
    EQUAL(CU(cuMemPoolCreate)(&pool, &props), 0);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, 400 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, 200 * MIB, pool, NULL), 0);
    EQUAL(usage()->card[0].charged_bytes + usage()->card[1].charged_bytes, usage()->card[1].charged_bytes);
    CHECK(usage()->card[1].charged_bytes >= 200 * MIB);
}

TEST(a_pool_that_gave_back_at_an_event_is_known_to_have, "memory=1024", NULL) {
    CUdeviceptr p;
    CUevent event;
    begin();
    EQUAL(CU(cuEventCreate)(&event, 0), 0);
    EQUAL(CU(cuMemAllocAsync)(&p, 600 * MIB, NULL), 0);
    EQUAL(CU(cuMemFreeAsync)(p, NULL), 0);
    EQUAL(CU(cuEventRecord)(event, NULL), 0);
    uint64_t held = charged();
    EQUAL(CU(cuEventSynchronize)(event), 0);
    CHECK(held >= 600 * MIB && charged() == 0);
}

TEST(views_of_the_first_version_show_the_tile, "memory=1024", NULL) {
    unsigned unused = 0, total = 0;
    begin();
    EQUAL(allocate(24, NULL), 0);
    EQUAL(CU(cuMemGetInfo)(&unused, &total), 0);
    CHECK(total == 1024 * MIB && unused == 1000 * MIB);
    EQUAL(CU(cuDeviceTotalMem)(&total, 0), 0);
    EQUAL(total, 1024 * MIB);
}

/* contexts and code */

static void creates(CUcontext *first, CUcontext *third, CUcontext *fourth) {
    CUctxCreateParams params = {0};
    EQUAL(CU(cuCtxCreate)(first, 0, 0), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 300 * MIB);
    EQUAL(CU(cuCtxCreate_v3)(third, NULL, 0, 0, 0), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 600 * MIB);
    EQUAL(CU(cuCtxCreate_v4)(fourth, &params, 0, 0), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 900 * MIB);
    EQUAL(usage()->slot[0].contexts, 4);
}

TEST(contexts_of_every_version_are_overhead, "memory=1024", "context=300m") {
    CUcontext first, third, fourth;
    begin();
    creates(&first, &third, &fourth);
    EQUAL(allocate(700, NULL), 0); /* in the last one, and gone with it */
    EQUAL(CU(cuCtxDestroy)(fourth), 0);
    EQUAL(charged(), 0);
    EQUAL(CU(cuCtxDestroy)(third), 0);
    EQUAL(CU(cuCtxDestroy)(first), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 0);
    EQUAL(usage()->slot[0].contexts, 1);
}

TEST(the_primary_context_goes_by_its_first_version_too, "memory=1024 card_flags=2", "context=300m") {
    CUcontext context;
    begin();
    EQUAL(charged(), 300 * MIB);
    EQUAL(CU(cuDevicePrimaryCtxRelease)(0), 0);
    EQUAL(charged(), 0);
    EQUAL(CU(cuDevicePrimaryCtxRetain)(&context, 0), 0);
    EQUAL(CU(cuCtxSetCurrent)(context), 0);
    EQUAL(allocate(100, NULL), 0);
    EQUAL(charged(), 400 * MIB);
    EQUAL(CU(cuDevicePrimaryCtxReset)(0), 0);
    EQUAL(charged(), 0);
}

TEST(code_loaded_in_every_way_is_overhead, "memory=1024", "module=20m lazy=0") {
    CUmodule module[3];
    char path[512];
    const char *code = "tessera-sim-module\nkernel spin ns=5\n";
    begin();
    snprintf(path, sizeof path, "%s/code", dir());
    FILE *file = fopen(path, "w");
    fputs(code, file);
    fclose(file);
    EQUAL(CU(cuModuleLoad)(&module[0], path), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 20 * MIB);
    EQUAL(CU(cuModuleLoadDataEx)(&module[1], code, 0, NULL, NULL), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 40 * MIB);
    EQUAL(CU(cuModuleLoadFatBinary)(&module[2], code), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 60 * MIB);
    for (int i = 0; i < 3; i++)
        EQUAL(CU(cuModuleUnload)(module[i]), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 0);
}

TEST(a_library_from_memory_is_overhead, "memory=1024", "module=20m lazy=0") {
    CUlibrary library;
    begin();
    EQUAL(CU(cuLibraryLoadData)(&library, "tessera-sim-module\nkernel spin ns=5\n", NULL, NULL, 0, NULL, NULL, 0), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 20 * MIB);
    EQUAL(CU(cuLibraryUnload)(library), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 0);
}

/* launches: fifty kernels of 5 ms take 1.25 s of a fifth of the card, once the burst is spent */

static CUfunction five;
static CUgraphExec graph_of_five;
static CUstream own;

static void shape(CUlaunchConfig *config) {
    *config = (CUlaunchConfig){.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
}
static CUresult by_ex(void) {
    CUlaunchConfig config;
    shape(&config);
    return CU(cuLaunchKernelEx)(&config, five, NULL, NULL);
}
static CUresult by_ex_ptsz(void) {
    CUlaunchConfig config;
    shape(&config);
    return CU(cuLaunchKernelEx_ptsz)(&config, five, NULL, NULL);
}
static CUresult by_kernel(void) { return CU(cuLaunchKernel)(five, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL); }
static CUresult by_kernel_ptsz(void) { return CU(cuLaunchKernel_ptsz)(five, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL); }
static CUresult by_cooperative(void) { return CU(cuLaunchCooperativeKernel)(five, 1, 1, 1, 32, 1, 1, 0, NULL, NULL); }
static CUresult by_cooperative_ptsz(void) { return CU(cuLaunchCooperativeKernel_ptsz)(five, 1, 1, 1, 32, 1, 1, 0, NULL, NULL); }
static CUresult by_several_devices(void) {
    CUDA_LAUNCH_PARAMS one = {.function = five, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1,
                              .blockDimZ = 1, .hStream = own};
    return CU(cuLaunchCooperativeKernelMultiDevice)(&one, 1, 0);
}
static CUresult by_launch(void) { return CU(cuLaunch)(five); }
static CUresult by_grid(void) { return CU(cuLaunchGrid)(five, 1, 1); }
static CUresult by_grid_async(void) { return CU(cuLaunchGridAsync)(five, 1, 1, own); }
static CUresult by_graph(void) { return CU(cuGraphLaunch)(graph_of_five, own); }
static CUresult by_graph_ptsz(void) { return CU(cuGraphLaunch_ptsz)(graph_of_five, own); }

static void limited(CUresult (*launch)(void)) {
    CUgraph graph;
    begin();
    five = kernel(5 * MS);
    EQUAL(CU(cuStreamCreate)(&own, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuFuncSetBlockShape)(five, 32, 1, 1), 0);
    EQUAL(CU(cuStreamBeginCapture_v2)(own, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    EQUAL(CU(cuLaunchKernel)(five, 1, 1, 1, 32, 1, 1, 0, own, NULL, NULL), 0);
    EQUAL(CU(cuStreamEndCapture)(own, &graph), 0);
    EQUAL(CU(cuGraphInstantiateWithFlags)(&graph_of_five, graph, 0), 0);
    uint64_t start = sim_now();
    for (int i = 0; i < 50; i++)
        EQUAL(launch(), 0);
    EQUAL(CU(cuCtxSynchronize)(), 0);
    double took = (double)(sim_now() - start) / 1e6;
    fprintf(stderr, "    %.0f ms for 250 of a fifth\n", took);
    CHECK(took > 1000 && took < 1500);
    EQUAL(usage()->card[0].launches >= 49, 1);
}
#define LIMITED(name) \
    TEST(launched_##name##_is_limited, "cores=20", "clock=virtual") { limited(name); }
LIMITED(by_kernel) LIMITED(by_kernel_ptsz) LIMITED(by_ex) LIMITED(by_ex_ptsz) LIMITED(by_cooperative) LIMITED(by_cooperative_ptsz)
LIMITED(by_several_devices) LIMITED(by_launch) LIMITED(by_grid) LIMITED(by_grid_async) LIMITED(by_graph) LIMITED(by_graph_ptsz)

TEST(a_launch_on_two_cards_is_counted_on_both, "cores=50", "clock=virtual cards=2") {
    char a[64], b[64], command[1024];
    CUcontext first, second;
    CUstream stream[2];
    uuid_of(0, a);
    uuid_of(1, b);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s/tessera-limits %s/limits card=%s cores=50 card=%s cores=20",
             getenv("TEST_BUILD"), dir(), a, b);
    EQUAL(system(command), 0);
    first = begin();
    CUfunction here = kernel(5 * MS);
    EQUAL(CU(cuStreamCreate)(&stream[0], CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuDevicePrimaryCtxRetain)(&second, 1), 0);
    EQUAL(CU(cuCtxSetCurrent)(second), 0);
    CUfunction there = kernel(5 * MS);
    EQUAL(CU(cuStreamCreate)(&stream[1], CU_STREAM_NON_BLOCKING), 0);
    EQUAL(CU(cuCtxSetCurrent)(first), 0);
    CUDA_LAUNCH_PARAMS both[2];
    for (int i = 0; i < 2; i++)
        both[i] = (CUDA_LAUNCH_PARAMS){.function = i ? there : here, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
                                       .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1, .hStream = stream[i]};
    uint64_t start = sim_now();
    for (int i = 0; i < 50; i++)
        EQUAL(CU(cuLaunchCooperativeKernelMultiDevice)(both, 2, 0), 0);
    CHECK(sim_now() - start > 1000 * MS); /* as the slower of the two allows */
}

/* graphs: however one is made, its memory is known before it is launched */

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

/* A stream's marks go with it: a program that makes a stream for everything goes on being measured. */
static void many_streams(int first) {
    begin();
    for (int i = 0; i < 600; i++) {
        CUstream stream;
        EQUAL(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), 0);
        EQUAL(CU(cuLaunchKernel)(kernel(MS), 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), 0);
        EQUAL(CU(cuStreamSynchronize)(stream), 0);
        EQUAL(first ? CU(cuStreamDestroy)(stream) : CU(cuStreamDestroy_v2)(stream), 0);
    }
    CUfunction f = kernel(10 * MS); /* never seen before */
    uint64_t start = sim_now(), busy = sim_busy(getpid());
    while (sim_now() - start < 6000 * MS) {
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    }
    double got = 100.0 * (double)(sim_busy(getpid()) - busy) / (double)(sim_now() - start);
    fprintf(stderr, "    %.1f of 50 %%\n", got);
    CHECK(got > 47 && got < 53);
    EQUAL(usage()->slot[0].gaps & TESSERA_GAP_EVENTS, 0);
}
TEST(streams_that_go_take_their_marks_along, "cores=50", "clock=virtual") { many_streams(0); }
TEST(streams_that_go_by_the_first_version_do_too, "cores=50", "clock=virtual") { many_streams(1); }
