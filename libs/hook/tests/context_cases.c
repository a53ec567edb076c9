/* Contexts that come and go by roads other than the usual one, and what stays behind them. */
#include "harness.h"

#define MS 1000000ull
#define PAIRS 2000

/* The runtime library takes the primary context out of a table of the driver's, past every wrapper. */
static CUcontext begin_as_the_runtime(void) {
    static const CUuuid runtime = {{0x6b, (char)0xd5, (char)0xfb, 0x6c, 0x5b, (char)0xf4, (char)0xe7, 0x4a, (char)0x89,
                                    (char)0x87, (char)0xd9, 0x39, 0x12, (char)0xfd, (char)0x9d, (char)0xf9}};
    const void *table;
    CUcontext context;
    EQUAL(CU(cuInit)(0), 0);
    EQUAL(CU(cuGetExportTable)(&table, &runtime), 0);
    CUresult (*take)(CUcontext *, CUdevice) = ((CUresult(*const *)(CUcontext *, CUdevice))table)[2];
    EQUAL(take(&context, 0), 0);
    EQUAL(CU(cuCtxSetCurrent)(context), 0);
    return context;
}

TEST(a_reset_by_the_runtime_gives_everything_back, "memory=1024", NULL) {
    for (int pass = 0; pass < 3; pass++) {
        begin_as_the_runtime();
        EQUAL(allocate(1000, NULL), 0);
        EQUAL(charged(), 1000 * MIB);
        EQUAL(CU(cuDevicePrimaryCtxReset_v2)(0), 0);
        EQUAL(charged(), 0);
    }
    EQUAL(sim_used(), 0);
}

TEST(the_last_release_gives_back_what_the_runtime_took, "memory=1024", NULL) {
    begin_as_the_runtime();
    EQUAL(allocate(1000, NULL), 0);
    EQUAL(CU(cuDevicePrimaryCtxRelease_v2)(0), 0);
    EQUAL(charged(), 0);
    EQUAL(sim_used(), 0);
}

/* Finding the context must neither make one nor keep one. */
TEST(a_reset_of_a_card_without_a_context_makes_none, "memory=1024", NULL) {
    unsigned flags;
    int active = 1;
    EQUAL(CU(cuInit)(0), 0);
    EQUAL(CU(cuDevicePrimaryCtxReset_v2)(0), 0);
    EQUAL(CU(cuDevicePrimaryCtxGetState)(0, &flags, &active), 0);
    EQUAL(active, 0);
    CHECK(CU(cuDevicePrimaryCtxRelease_v2)(0) != 0);
    EQUAL(sim_used(), 0);
}

/* Libraries retain and release the primary context around each of their calls, while others hold it. */
TEST(retaining_and_releasing_neither_leaks_events_nor_forgets_measurements, "cores=90", "clock=virtual") {
    CUcontext again;
    CUevent event;
    begin();
    CUfunction f = kernel(MS);
    for (int i = 0; i < PAIRS; i++) {
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(CU(cuDevicePrimaryCtxRetain)(&again, 0), 0);
        EQUAL(CU(cuDevicePrimaryCtxRelease_v2)(0), 0);
    }
    EQUAL(CU(cuCtxSynchronize)(), 0);
    sim_sleep(100 * MS);
    EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0); /* what was measured is settled */
    double counted = (double)usage()->card[0].gpu_ns, really = (double)sim_busy(0);
    fprintf(stderr, "    counted %.0f ms of %.0f\n", counted / 1e6, really / 1e6);
    CHECK(counted > really * 0.98 && counted < really * 1.02);
    for (int i = 0; i < 16000; i++) /* of the 16,384 that the machine has */
        EQUAL(CU(cuEventCreate)(&event, CU_EVENT_DEFAULT), 0);
}

static CUgreenCtx green(void) {
    CUgreenCtx context;
    CUdevResourceDesc desc;
    CUdevResource half = {0};
    EQUAL(CU(cuDevResourceGenerateDesc)(&desc, &half, 1), 0);
    EQUAL(CU(cuGreenCtxCreate)(&context, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM), 0);
    return context;
}

TEST(contexts_are_shown_as_overhead_not_charged, "memory=1024", "context=300m") {
    CUcontext second;
    begin();
    EQUAL(CU(cuCtxCreate_v2)(&second, 0, 0), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 300 * MIB); /* the first one is NVML's to see */
    EQUAL(usage()->slot[0].contexts, 2);
    CUgreenCtx third = green();
    EQUAL(usage()->slot[0].overhead_bytes, 600 * MIB);
    EQUAL(usage()->slot[0].contexts, 3);
    EQUAL(charged(), 0);
    EQUAL(CU(cuGreenCtxDestroy)(third), 0);
    EQUAL(CU(cuCtxDestroy_v2)(second), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 0);
    EQUAL(usage()->slot[0].contexts, 1);
}

TEST(hc_contexts_are_never_charged_where_they_should_be, "memory=1024 card_flags=2", "context=300m") {
    CUcontext second;
    begin();
    EQUAL(charged(), 300 * MIB);
    EQUAL(usage()->slot[0].bytes[TESSERA_CONTEXT], 300 * MIB);
    EQUAL(CU(cuCtxCreate_v2)(&second, 0, 0), 0);
    EQUAL(charged(), 600 * MIB);
    EQUAL(allocate(500, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuCtxDestroy_v2)(second), 0);
    EQUAL(charged(), 300 * MIB);
    EQUAL(CU(cuDevicePrimaryCtxRelease_v2)(0), 0);
    EQUAL(charged(), 0);
}

TEST(hc_a_second_release_of_the_primary_context_is_the_one_that_counts, "memory=1024 card_flags=2", "context=300m") {
    CUcontext context;
    begin();
    EQUAL(CU(cuDevicePrimaryCtxRetain)(&context, 0), 0);
    EQUAL(CU(cuDevicePrimaryCtxRelease_v2)(0), 0);
    EQUAL(charged(), 300 * MIB);
    EQUAL(usage()->slot[0].contexts, 1);
    EQUAL(CU(cuDevicePrimaryCtxRelease_v2)(0), 0);
    EQUAL(charged(), 0);
}

TEST(code_is_overhead_until_it_is_unloaded, "memory=1024", "module=20m lazy=0") {
    CUmodule module;
    CUlibrary library;
    char path[512];
    begin();
    EQUAL(CU(cuModuleLoadData)(&module, "tessera-sim-module\nkernel spin ns=5\n"), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 20 * MIB);
    snprintf(path, sizeof path, "%s/code", dir());
    FILE *file = fopen(path, "w");
    fputs("tessera-sim-module\nkernel spin ns=5\n", file);
    fclose(file);
    EQUAL(CU(cuLibraryLoadFromFile)(&library, path, NULL, NULL, 0, NULL, NULL, 0), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 40 * MIB);
    EQUAL(CU(cuModuleUnload)(module), 0);
    EQUAL(CU(cuLibraryUnload)(library), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 0);
    EQUAL(charged(), 0);
}

TEST(code_is_charged_where_the_policy_says_so, "memory=1024 card_flags=2", "module=20m context=100m lazy=0") {
    CUmodule module;
    begin();
    EQUAL(CU(cuModuleLoadData)(&module, "tessera-sim-module\nkernel spin ns=5\n"), 0);
    EQUAL(charged(), 120 * MIB);
    EQUAL(CU(cuModuleUnload)(module), 0);
    EQUAL(charged(), 100 * MIB);
}
