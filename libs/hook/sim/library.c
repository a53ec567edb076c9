/* Libraries (CUDA 12): a module per library, loaded into the primary context of the current device when first used there. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIM_LIBRARY = 0x4c494252, SIM_KERNEL_OBJECT = 0x4b45524e };

struct CUlib_st {
    uint32_t magic;
    CUmodule module;
};

struct CUkern_st {
    uint32_t magic;
    CUlibrary library;
    CUfunction function;
};

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
    CUmodule module;
    CUcontext ctx;
    ENTER();
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    if (!library || !code)
        return CUDA_ERROR_INVALID_VALUE;
    bool borrowed = sim_current(&ctx) != CUDA_SUCCESS; /* libraries need no current context: a primary one is used */
    CUresult r = CUDA_SUCCESS;
    if (borrowed) {
        uint32_t card;
        sim_card_of(0, &card);
        ctx = sim_primary(card);
        r = ctx ? cuCtxPushCurrent_v2(ctx) : CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!r)
        r = cuModuleLoadData(&module, code);
    if (borrowed && ctx)
        cuCtxPopCurrent_v2(NULL);
    if (r)
        return r;
    CUlibrary l = sim_object_new(SIM_LIBRARY, sizeof *l);
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->module = module;
    *library = l;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values, unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
    ENTER();
    if (!library || !path)
        return CUDA_ERROR_INVALID_VALUE;
    FILE *file = fopen(path, "re");
    char *image = calloc(1, 1 << 20);
    size_t n = file && image ? fread(image, 1, (1 << 20) - 1, file) : 0;
    CUresult r = !file ? CUDA_ERROR_FILE_NOT_FOUND : !n ? CUDA_ERROR_INVALID_IMAGE : cuLibraryLoadData(library, image, jit, jit_values, jit_count, options, values, count);
    if (file)
        fclose(file);
    free(image);
    return r;
}

static bool alive(CUlibrary l) { return l && l->magic == SIM_LIBRARY; }

CUresult cuLibraryUnload(CUlibrary library)
{
    ENTER();
    if (!alive(library))
        return CUDA_ERROR_INVALID_HANDLE;
    cuModuleUnload(library->module);
    sim_object_free(library, sizeof *library);
    return CUDA_SUCCESS;
}

/* One kernel object for a function, however often it is asked for. */
static CUresult kernel_of(CUkernel *kernel, CUlibrary library, CUfunction f)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&making);
    CUkernel k = f->kernel ? f->kernel : sim_object_new(SIM_KERNEL_OBJECT, sizeof *k);
    if (k) {
        k->library = library;
        k->function = f;
        f->kernel = k;
    }
    pthread_mutex_unlock(&making);
    *kernel = k;
    return k ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    CUfunction f;
    ENTER();
    if (!kernel || !alive(library))
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = sim_module_function(&f, library->module, name);
    return r ? r : kernel_of(kernel, library, f);
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
    ENTER();
    return alive(library) ? cuModuleGetFunctionCount(count, library->module) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library)
{
    CUresult r = CUDA_SUCCESS;
    ENTER();
    if (!alive(library))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!kernels || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUfunction f = library->module->functions; f && count && !r; f = f->next, count--)
        r = kernel_of(kernels++, library, f);
    return r;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    ENTER();
    if (!module || !alive(library))
        return CUDA_ERROR_INVALID_HANDLE;
    *module = library->module;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    ENTER();
    return alive(library) ? cuModuleGetGlobal_v2(dptr, bytes, library->module, name) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    ENTER();
    if (!function || !kernel || kernel->magic != SIM_KERNEL_OBJECT)
        return CUDA_ERROR_INVALID_HANDLE;
    *function = kernel->function;
    return sim_module_load(kernel->function->module);
}

#define KERNEL(out)                                                     \
    ENTER();                                                            \
    if (!kernel || kernel->magic != SIM_KERNEL_OBJECT)                  \
        return CUDA_ERROR_INVALID_HANDLE;                               \
    NEED(out)

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    KERNEL(name);
    *name = kernel->function->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    KERNEL(library);
    *library = kernel->library;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    KERNEL(offset);
    return cuFuncGetParamInfo(kernel->function, index, offset, size);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    KERNEL(true);
    (void)config, (void)dev;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    (void)dev;
    ENTER();
    return kernel && kernel->magic == SIM_KERNEL_OBJECT ? cuFuncGetAttribute(value, attrib, kernel->function) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int value, CUkernel kernel, CUdevice dev)
{
    (void)dev;
    ENTER();
    return kernel && kernel->magic == SIM_KERNEL_OBJECT ? cuFuncSetAttribute(kernel->function, attrib, value) : CUDA_ERROR_INVALID_HANDLE;
}
