/* sim: cuda=12080
 * cuGetProcAddress: base names only, the version picks the ABI, flags pick the family, the status says why not. */
#include <dlfcn.h>

#include "check.h"

static void *get(const char *name, int version, cuuint64_t flags, CUdriverProcAddressQueryResult want)
{
    void *p = (void *)1, *old = (void *)1;
    CUdriverProcAddressQueryResult status = 9;
    CUresult r = cuGetProcAddress_v2(name, &p, version, flags, &status);
    EQUAL(status, want);
    EQUAL(r, want == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
    EQUAL(cuGetProcAddress(name, &old, version, flags), r);
    CHECK(old == p);
    return p;
}

int main(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(lib);
    static const struct {
        const char *name;
        int version, flags;
        const char *symbol;
    } rows[] = {
        {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
        {"cuMemAlloc", 12000, 1, "cuMemAlloc_v2"},
        {"cuMemAlloc", 2000, 0, "cuMemAlloc"},
        {"cuMemAlloc", 12000, 2, "cuMemAlloc_v2"}, /* no twin: the legacy one */
        {"cuMemGetInfo", 3020, 0, "cuMemGetInfo_v2"},
        {"cuLaunchKernel", 4000, 0, "cuLaunchKernel"},
        {"cuLaunchKernel", 7000, 2, "cuLaunchKernel_ptsz"},
        {"cuLaunchKernel", 4000, 2, "cuLaunchKernel"}, /* the twin is younger */
        {"cuLaunchKernelEx", 11060, 2, "cuLaunchKernelEx_ptsz"},
        {"cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds"},
        {"cuMemcpyHtoD", 7000, 1, "cuMemcpyHtoD_v2"},
        {"cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz"},
        {"cuGetProcAddress", 11030, 0, "cuGetProcAddress"}, /* self lookups of both ABIs */
        {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
        {"cuCtxCreate", 3020, 0, "cuCtxCreate_v2"},
        {"cuCtxCreate", 11040, 0, "cuCtxCreate_v3"},
        {"cuCtxCreate", 12050, 0, "cuCtxCreate_v4"},
        {"cuStreamGetCaptureInfo", 10010, 0, "cuStreamGetCaptureInfo"},
        {"cuStreamGetCaptureInfo", 11030, 2, "cuStreamGetCaptureInfo_v2_ptsz"},
        {"cuStreamGetCaptureInfo", 12030, 2, "cuStreamGetCaptureInfo_v3_ptsz"},
        {"cuGraphInstantiate", 10000, 0, "cuGraphInstantiate"},
        {"cuGraphInstantiate", 11000, 0, "cuGraphInstantiate_v2"},
        {"cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags"},
        {"cuGraphExecUpdate", 10020, 0, "cuGraphExecUpdate"},
        {"cuGraphExecUpdate", 12000, 0, "cuGraphExecUpdate_v2"},
        {"cuGraphLaunch", 10000, 2, "cuGraphLaunch_ptsz"},
        {"cuMemPrefetchAsync", 12020, 2, "cuMemPrefetchAsync_v2_ptsz"},
        {"cuMemAdvise", 8000, 0, "cuMemAdvise"},
        {"cuDevicePrimaryCtxRelease", 7000, 0, "cuDevicePrimaryCtxRelease"},
        {"cuDevicePrimaryCtxRelease", 13000, 0, "cuDevicePrimaryCtxRelease_v2"}, /* asked by a newer client */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *want = dlsym(lib, rows[i].symbol);
        void *got = get(rows[i].name, rows[i].version, (cuuint64_t)rows[i].flags, CU_GET_PROC_ADDRESS_SUCCESS);
        if (!want || got != want)
            fprintf(stderr, "%s at %d with flags %d is not %s\n", rows[i].name, rows[i].version, rows[i].flags, rows[i].symbol);
        CHECK(want && got == want);
    }
    void *empty = (void *)1;
    OK(cuGetProcAddress_v2("", &empty, 0, 0, NULL)); /* the runtime library's first question */
    OK(cuGetProcAddress("", &empty, 0, 0));
    CHECK(!empty);
    CHECK(!get("cuNoSuchThing", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
    CHECK(!get("cuMemAlloc_v2", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)); /* no base name */
    CHECK(!get("cuLaunchKernelEx", 11050, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
    void *p;
    EQUAL(cuGetProcAddress_v2("cuInit", &p, 2000, 3, NULL), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuGetProcAddress_v2(NULL, &p, 2000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    const void *table = NULL;
    CUuuid runtime = {{0x6b, (char)0xd5, (char)0xfb, 0x6c, 0x5b, (char)0xf4, (char)0xe7, 0x4a, (char)0x89, (char)0x87, (char)0xd9, 0x39, 0x12, (char)0xfd, (char)0x9d, (char)0xf9}};
    OK(cuGetExportTable(&table, &runtime));
    CHECK(*(const size_t *)table >= 64);
    runtime.bytes[0] = 0;
    CHECK(cuGetExportTable(&table, &runtime) != CUDA_SUCCESS && !table);
    return 0;
}
