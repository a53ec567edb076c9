/* Every spelling of a launch is limited: fifty kernels of 5 ms take 1.25 s of a fifth of the card, once the
 * burst is spent. */
#include "harness.h"

#define MS 1000000ull

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
