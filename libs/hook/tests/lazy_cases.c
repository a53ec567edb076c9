/* What takes memory later than one thinks, or more of it than was asked for. */
#include "harness.h"
#include "wander.h"

static uint64_t overhead(void) {
    return usage()->slot[0].overhead_bytes;
}

static CUlibrary library_of(CUkernel *kernel) {
    CUlibrary library;
    EQUAL(CU(cuLibraryLoadData)(&library, "tessera-sim-module\nkernel k ns=1000\n", NULL, NULL, 0, NULL, NULL, 0), 0);
    EQUAL(CU(cuLibraryGetKernel)(kernel, library, "k"), 0);
    return library;
}

TEST(code_that_is_loaded_when_it_is_asked_for_is_overhead, "memory=1024", "module=20m") {
    CUmodule module;
    CUfunction f;
    CUkernel k;
    begin();
    uint64_t before = overhead();
    EQUAL(CU(cuModuleLoadData)(&module, "tessera-sim-module\nkernel k ns=1000\n"), 0);
    EQUAL(CU(cuModuleGetFunction)(&f, module, "k"), 0);
    EQUAL(overhead() - before, 20 * MIB);
    EQUAL(CU(cuModuleGetFunction)(&f, module, "k"), 0);
    EQUAL(overhead() - before, 20 * MIB);
    EQUAL(CU(cuModuleUnload)(module), 0);
    EQUAL(overhead(), before);
    CUlibrary library = library_of(&k);
    EQUAL(CU(cuKernelGetFunction)(&f, k), 0);
    EQUAL(overhead() - before, 20 * MIB);
    EQUAL(CU(cuLibraryUnload)(library), 0);
    EQUAL(overhead(), before);
}

TEST(code_that_is_loaded_on_demand_is_overhead, "memory=1024", "module=20m") {
    CUmodule module;
    CUfunction f;
    begin();
    uint64_t before = overhead();
    EQUAL(CU(cuModuleLoadData)(&module, "tessera-sim-module\nkernel k ns=1000\n"), 0);
    EQUAL(CU(cuModuleEnumerateFunctions)(&f, 1, module), 0);
    EQUAL(overhead(), before);
    EQUAL(CU(cuFuncLoad)(f), 0);
    EQUAL(overhead() - before, 20 * MIB);
}

/* Known at once, and not only when the pools are looked at next. */
TEST(a_trim_of_graph_memory_is_given_back, "memory=1024", NULL) {
    begin();
    wander_graph(100 * MIB);
    EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    CHECK(charged() >= 100 * MIB);
    EQUAL(CU(cuDeviceGraphMemTrim)(0), 0);
    EQUAL(charged(), 0);
}

TEST(code_that_a_launch_loads_is_charged_where_the_policy_says_so, "memory=1024 card_flags=2", "module=20m context=100m") {
    CUkernel k;
    begin();
    uint64_t before = charged();
    CUlibrary library = library_of(&k);
    EQUAL(charged(), before);
    EQUAL(CU(cuLaunchKernel)((CUfunction)k, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
    EQUAL(charged() - before, 20 * MIB);
    EQUAL(CU(cuCtxSynchronize)(), 0);
    EQUAL(CU(cuLibraryUnload)(library), 0);
    EQUAL(charged(), before);
}

TEST(the_heap_of_kernels_is_charged_where_the_policy_says_so, "memory=1024 card_flags=2", "context=100m") {
    size_t heap = 0;
    begin();
    EQUAL(CU(cuCtxGetLimit)(&heap, CU_LIMIT_MALLOC_HEAP_SIZE), 0);
    uint64_t before = charged();
    EQUAL(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, heap + 64 * MIB), 0);
    EQUAL(charged() - before, 64 * MIB);
    EQUAL(CU(cuDevicePrimaryCtxReset_v2)(0), 0);
    CHECK(charged() <= before);
}

/* The driver takes whole pages from half a page on: a tile of 512 MiB holds 256 of these, and not 447. */
TEST(allocations_of_more_than_half_a_page_are_charged_whole_pages, "memory=512", NULL) {
    CUdeviceptr p[512];
    size_t pitch;
    int n = 0;
    begin();
    uint64_t others = sim_used();
    while (n < 512 && CU(cuMemAlloc_v2)(&p[n], 1200000) == CUDA_SUCCESS)
        n++;
    EQUAL(n, 256);
    EQUAL(sim_used() - others, 512 * MIB);
    while (n > 0)
        EQUAL(CU(cuMemFree_v2)(p[--n]), 0);
    EQUAL(charged(), 0);
    EQUAL(CU(cuMemAllocPitch_v2)(&p[0], &pitch, 1000, 2000, 4), 0);
    EQUAL(charged(), sim_used() - others);
    EQUAL(CU(cuMemFree_v2)(p[0]), 0);
}
