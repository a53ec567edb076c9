/* Kernels: what compiled programs register, and launches of it. A fat binary becomes a library of the driver's at the first use of one of
 * its kernels, and a kernel is looked up at its first launch. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cudart.h"

typedef CUstream cudaStream_t;

typedef struct { /* as the compiler writes it */
    int magic, version;
    const void *data, *more;
} Wrapper;

typedef struct {
    const void *image;
    CUlibrary library;
} Binary;

typedef struct { /* of one address in the program: a kernel's stub, or a variable */
    const void *host;
    Binary *binary;
    const char *name;
    size_t size; /* of a variable */
    CUkernel kernel;
} Entry;

static Entry *entries;
static size_t count, room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static Entry *place_of(const void *host)
{
    size_t at = ((uintptr_t)host >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    for (at &= room - 1; entries[at].host && entries[at].host != host; at = (at + 1) & (room - 1))
        ;
    return &entries[at];
}

static void add(const Entry *entry)
{
    pthread_mutex_lock(&lock);
    if (2 * count >= room) {
        Entry *old = entries;
        size_t had = room;
        room = room ? 2 * room : 65536;
        entries = calloc(room, sizeof *entries);
        for (size_t i = 0; entries && i < had; i++)
            if (old[i].host)
                *place_of(old[i].host) = old[i];
        free(old);
    }
    if (entries) {
        Entry *to = place_of(entry->host);
        count += !to->host;
        *to = *entry;
    }
    pthread_mutex_unlock(&lock);
}

/* A capture of this thread is not disturbed by it. */
static cudaError_t library_of(Binary *binary) /* lock held */
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (binary->library)
        return cudaSuccess;
    driver.cuThreadExchangeStreamCaptureMode(&mode);
    CUresult r = driver.cuLibraryLoadData(&binary->library, binary->image, NULL, NULL, 0, NULL, NULL, 0);
    driver.cuThreadExchangeStreamCaptureMode(&mode);
    return (cudaError_t)r;
}

static cudaError_t kernel_of(const void *host, CUkernel *kernel)
{
    cudaError_t r = rt_context();
    if (r)
        return r;
    pthread_mutex_lock(&lock);
    Entry *e = room ? place_of(host) : NULL;
    if (!e || !e->host) {
        r = cudaErrorInvalidDeviceFunction;
    } else if (!e->kernel) {
        r = library_of(e->binary);
        if (!r)
            r = (cudaError_t)driver.cuLibraryGetKernel(&e->kernel, e->binary->library, e->name);
    }
    *kernel = r ? NULL : e->kernel;
    pthread_mutex_unlock(&lock);
    return r;
}

API void **__cudaRegisterFatBinary(void *wrapper);
API void __cudaRegisterFatBinaryEnd(void **binary);
API void __cudaUnregisterFatBinary(void **binary);
API void __cudaRegisterFunction(void **binary, const char *host, char *device, const char *name, int limit, void *tid, void *bid, dim3 *block, dim3 *grid, int *warp);
API void __cudaRegisterVar(void **binary, char *host, char *address, const char *name, int external, size_t size, int constant, int global);
API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
API cudaError_t __cudaGetKernel(CUkernel *kernel, const void *host);
API cudaError_t __cudaLaunchKernel(CUkernel kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);
API cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);
API cudaError_t cudaLaunchCooperativeKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);

void **__cudaRegisterFatBinary(void *wrapper)
{
    Binary *binary = calloc(1, sizeof *binary);
    if (binary)
        binary->image = ((const Wrapper *)wrapper)->data;
    return (void **)binary;
}

void __cudaRegisterFatBinaryEnd(void **binary) { (void)binary; }
void __cudaUnregisterFatBinary(void **binary) { (void)binary; } /* at the program's end: the driver may be gone */

void __cudaRegisterFunction(void **binary, const char *host, char *device, const char *name, int limit, void *tid, void *bid, dim3 *block, dim3 *grid, int *warp)
{
    (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    add(&(Entry){.host = host, .binary = (Binary *)binary, .name = name});
}

void __cudaRegisterVar(void **binary, char *host, char *address, const char *name, int external, size_t size, int constant, int global)
{
    (void)address, (void)external, (void)constant, (void)global;
    add(&(Entry){.host = host, .binary = (Binary *)binary, .name = name, .size = size});
}

static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} pushed[8];
static _Thread_local unsigned depth;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    if (depth == 8)
        return 1;
    pushed[depth].grid = grid;
    pushed[depth].block = block;
    pushed[depth].shared = shared;
    pushed[depth++].stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (!depth)
        return rt_kept(52); /* nothing was pushed */
    depth--;
    *grid = pushed[depth].grid;
    *block = pushed[depth].block;
    *shared = pushed[depth].shared;
    *(cudaStream_t *)stream = pushed[depth].stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(CUkernel *kernel, const void *host) { return rt_kept(kernel_of(host, kernel)); }

cudaError_t __cudaLaunchKernel(CUkernel kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    WITH_CONTEXT(driver.cuLaunchKernel((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, args, NULL));
}

cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    CUkernel kernel;
    cudaError_t r = kernel_of(host, &kernel);
    return r ? rt_kept(r) : __cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}

static cudaError_t function_of(const void *host, CUfunction *function)
{
    CUkernel kernel;
    cudaError_t r = kernel_of(host, &kernel);
    return r ? r : (cudaError_t)driver.cuKernelGetFunction(function, kernel);
}

cudaError_t cudaLaunchCooperativeKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    CUfunction f;
    cudaError_t r = function_of(host, &f);
    return rt_kept(r ? r : (cudaError_t)driver.cuLaunchCooperativeKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, args));
}

typedef struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    CUlaunchAttribute *attributes;
    unsigned count;
} Config;

struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes;
    int rest[23];
};

API cudaError_t cudaLaunchKernelExC(const Config *config, const void *host, void **args);
API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *host);
API cudaError_t cudaFuncSetAttribute(const void *host, int attribute, int value);
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int size, size_t shared, unsigned flags);
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int size, size_t shared);
API cudaError_t cudaGetSymbolAddress(void **p, const void *host);
API cudaError_t cudaMemcpyToSymbol(const void *host, const void *src, size_t bytes, size_t offset, int kind);

/* The function may be a kernel object of a library, which the driver takes as it is. */
cudaError_t cudaLaunchKernelExC(const Config *config, const void *host, void **args)
{
    CUkernel kernel;
    cudaError_t r = kernel_of(host, &kernel);
    if (r == cudaErrorInvalidDeviceFunction) {
        kernel = (CUkernel)(uintptr_t)host;
        r = cudaSuccess;
    }
    CUlaunchConfig c = {config->grid.x, config->grid.y, config->grid.z, config->block.x, config->block.y, config->block.z, (unsigned)config->shared, config->stream, config->attributes, config->count};
    return rt_kept(r ? r : (cudaError_t)driver.cuLaunchKernelEx(&c, (CUfunction)kernel, args, NULL));
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *host)
{
    CUkernel kernel;
    cudaError_t r = kernel_of(host, &kernel);
    int value[9] = {0};
    for (int i = 0; i < 9 && !r; i++)
        if (i != 7)
            r = (cudaError_t)driver.cuKernelGetAttribute(&value[i], (CUfunction_attribute)i, kernel, rt_device());
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = value[0];
    attributes->sharedSizeBytes = (size_t)value[1];
    attributes->constSizeBytes = (size_t)value[2];
    attributes->localSizeBytes = (size_t)value[3];
    attributes->numRegs = value[4];
    attributes->ptxVersion = value[5];
    attributes->binaryVersion = value[6];
    attributes->maxDynamicSharedSizeBytes = value[8];
    return rt_kept(r);
}

cudaError_t cudaFuncSetAttribute(const void *host, int attribute, int value)
{
    CUkernel kernel;
    cudaError_t r = kernel_of(host, &kernel);
    return rt_kept(r ? r : (cudaError_t)driver.cuKernelSetAttribute((CUfunction_attribute)attribute, value, kernel, rt_device()));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int size, size_t shared, unsigned flags)
{
    CUfunction f;
    cudaError_t r = function_of(host, &f);
    return rt_kept(r ? r : (cudaError_t)driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, size, shared, flags));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int size, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, size, shared, 0);
}

cudaError_t cudaGetSymbolAddress(void **p, const void *host)
{
    CUdeviceptr address = 0;
    size_t bytes = 0;
    cudaError_t r = rt_context();
    pthread_mutex_lock(&lock);
    Entry *e = room ? place_of(host) : NULL;
    if (!r)
        r = e && e->host ? library_of(e->binary) : 13; /* no such symbol */
    if (!r)
        r = (cudaError_t)driver.cuLibraryGetGlobal(&address, &bytes, e->binary->library, e->name);
    pthread_mutex_unlock(&lock);
    *p = (void *)(uintptr_t)address;
    return rt_kept(r);
}

cudaError_t cudaMemcpyToSymbol(const void *host, const void *src, size_t bytes, size_t offset, int kind)
{
    void *p;
    cudaError_t r = cudaGetSymbolAddress(&p, host);
    (void)kind;
    return r ? r : rt_kept((cudaError_t)driver.cuMemcpy((CUdeviceptr)(uintptr_t)p + offset, (CUdeviceptr)(uintptr_t)src, bytes));
}
