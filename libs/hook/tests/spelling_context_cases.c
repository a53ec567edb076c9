/* Contexts and code, made by every version of a function, are overhead. */
#include "harness.h"

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
