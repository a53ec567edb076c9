/* sim: clock=virtual memory=1g context=0
 * Lazy loading, the default since CUDA 12.2: code takes its memory at the first use of it. */
#include "check.h"

static const char text[] = "tessera-sim-module bytes=8m\nkernel k ns=1000\nglobal g bytes=64\n";

int main(void)
{
    CUmodule module;
    CUlibrary library;
    CUkernel k;
    CUfunction f;
    CUfunctionLoadingState state;
    CUmoduleLoadingMode mode;
    start();
    OK(cuModuleGetLoadingMode(&mode));
    EQUAL(mode, CU_MODULE_LAZY_LOADING);
    OK(cuModuleLoadData(&module, text));
    EQUAL(cuSimCardUsed(0), 0);
    OK(cuModuleGetFunction(&f, module, "k"));
    EQUAL(cuSimCardUsed(0), 8 * MIB);
    OK(cuModuleGetFunction(&f, module, "k"));
    EQUAL(cuSimCardUsed(0), 8 * MIB); /* once */
    OK(cuModuleUnload(module));
    EQUAL(cuSimCardUsed(0), 0);

    OK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&k, library, "k"));
    EQUAL(cuSimCardUsed(0), 0); /* a kernel is known, and not there */
    OK(launch((CUfunction)k, 1, NULL));
    EQUAL(cuSimCardUsed(0), 8 * MIB);
    OK(cuKernelGetFunction(&f, k));
    OK(cuFuncIsLoaded(&state, f));
    EQUAL(state, CU_FUNCTION_LOADING_STATE_LOADED);
    OK(cuLibraryUnload(library));
    EQUAL(cuSimCardUsed(0), 0);

    CUdeviceptr all, g;
    size_t bytes;
    OK(cuModuleLoadData(&module, text));
    OK(cuMemAlloc_v2(&all, 1020 * MIB));
    EQUAL(cuModuleGetFunction(&f, module, "k"), CUDA_ERROR_OUT_OF_MEMORY); /* where there is no room when it is needed */
    OK(cuMemFree_v2(all));
    OK(cuModuleGetGlobal_v2(&g, &bytes, module, "g"));
    CHECK(cuSimCardUsed(0) >= 8 * MIB);
    return 0;
}
