/* Libraries that a program loads by itself. */
#include "cudart.h"

API cudaError_t cudaLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned jit_count, CUlibraryOption *options, void **values, unsigned count);
API cudaError_t cudaLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values, unsigned jit_count, CUlibraryOption *options, void **values, unsigned count);
API cudaError_t cudaLibraryUnload(CUlibrary library);
API cudaError_t cudaLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);
API cudaError_t cudaLibraryGetKernelCount(unsigned *count, CUlibrary library);
API cudaError_t cudaLibraryGetGlobal(void **p, size_t *bytes, CUlibrary library, const char *name);
API cudaError_t cudaLibraryGetManaged(void **p, size_t *bytes, CUlibrary library, const char *name);
API cudaError_t cudaLibraryGetUnifiedFunction(void **fn, CUlibrary library, const char *symbol);
API cudaError_t cudaKernelSetAttributeForDevice(CUkernel kernel, int attribute, int value, int device);

cudaError_t cudaLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
    WITH_CONTEXT(driver.cuLibraryLoadData(library, code, jit, jit_values, jit_count, options, values, count));
}

cudaError_t cudaLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values, unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
    WITH_CONTEXT(driver.cuLibraryLoadFromFile(library, path, jit, jit_values, jit_count, options, values, count));
}

cudaError_t cudaLibraryUnload(CUlibrary library) { WITH_DRIVER(driver.cuLibraryUnload(library)); }
cudaError_t cudaLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) { WITH_DRIVER(driver.cuLibraryGetKernel(kernel, library, name)); }
cudaError_t cudaLibraryGetKernelCount(unsigned *count, CUlibrary library) { WITH_DRIVER(driver.cuLibraryGetKernelCount(count, library)); }

cudaError_t cudaLibraryGetGlobal(void **p, size_t *bytes, CUlibrary library, const char *name)
{
    CUdeviceptr address = 0;
    cudaError_t r = rt_context();
    if (!r)
        r = (cudaError_t)driver.cuLibraryGetGlobal(&address, bytes, library, name);
    *p = (void *)(uintptr_t)address;
    return rt_kept(r);
}

cudaError_t cudaLibraryGetManaged(void **p, size_t *bytes, CUlibrary library, const char *name)
{
    (void)p, (void)bytes, (void)library, (void)name;
    return rt_kept(cudaErrorNotSupported);
}

cudaError_t cudaLibraryGetUnifiedFunction(void **fn, CUlibrary library, const char *symbol)
{
    (void)fn, (void)library, (void)symbol;
    return rt_kept(cudaErrorNotSupported);
}

cudaError_t cudaKernelSetAttributeForDevice(CUkernel kernel, int attribute, int value, int device)
{
    WITH_DRIVER(driver.cuKernelSetAttribute((CUfunction_attribute)attribute, value, kernel, device));
}
