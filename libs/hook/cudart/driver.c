/* The way to the driver, and this thread's device and context. */
#include <dlfcn.h>
#include <pthread.h>

#include "cudart.h"

struct Driver driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t outcome = 3; /* not initialised */
static _Thread_local int device_here;
static _Thread_local cudaError_t last;
static CUresult (*primary_of)(CUcontext *, CUdevice);

/* The driver's table for the runtime library: its second entry after the size gives the primary context of a device, and no hook of an
 * exported function sees that. */
static const unsigned char runtime_table[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};

static bool find(void **place, const char *base, int version)
{
    CUdriverProcAddressQueryResult status;
    return driver.look_up(base, place, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status) == CUDA_SUCCESS && *place;
}

static void begin(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    const void *table = NULL;
    if (library)
        *(void **)&driver.look_up = dlsym(library, "cuGetProcAddress_v2");
    if (!driver.look_up) {
        outcome = 35; /* no driver, or too old a one */
        return;
    }
    bool all = true;
#define FIND(symbol, base, version) all &= find((void **)&driver.symbol, #base, version);
    DRIVER_FUNCTIONS(FIND)
#undef FIND
    if (!all) {
        outcome = 35;
        return;
    }
    outcome = (cudaError_t)driver.cuInit(0);
    if (!outcome && driver.cuGetExportTable(&table, (const CUuuid *)runtime_table) == CUDA_SUCCESS)
        primary_of = ((CUresult(*const *)(CUcontext *, CUdevice))table)[2];
}

cudaError_t rt_ready(void)
{
    pthread_once(&once, begin);
    return outcome;
}

cudaError_t rt_kept(cudaError_t result)
{
    if (result)
        last = result;
    return result;
}

int rt_device(void) { return device_here; }

static CUcontext primary[CARDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static cudaError_t take(int device) /* its primary context becomes this thread's */
{
    cudaError_t r = cudaSuccess;
    if (device < 0 || device >= CARDS)
        return 101;
    pthread_mutex_lock(&lock);
    if (!primary[device])
        r = primary_of ? (cudaError_t)primary_of(&primary[device], device) : cudaErrorNotSupported;
    pthread_mutex_unlock(&lock);
    return r ? r : (cudaError_t)driver.cuCtxSetCurrent(primary[device]);
}

cudaError_t rt_context(void)
{
    CUcontext now = NULL;
    cudaError_t r = rt_ready();
    if (!r)
        r = (cudaError_t)driver.cuCtxGetCurrent(&now);
    return r || now ? r : take(device_here);
}

API cudaError_t cudaSetDevice(int device);
API cudaError_t cudaGetDevice(int *device);
API cudaError_t cudaGetLastError(void);
API cudaError_t cudaPeekAtLastError(void);
API cudaError_t cudaDeviceSynchronize(void);
API cudaError_t cudaDeviceReset(void);

cudaError_t cudaSetDevice(int device)
{
    cudaError_t r = rt_ready();
    CUdevice found;
    if (!r)
        r = (cudaError_t)driver.cuDeviceGet(&found, device);
    if (!r)
        r = take(device);
    if (!r)
        device_here = device;
    return rt_kept(r);
}

/* A context that was made current through the driver decides. */
cudaError_t cudaGetDevice(int *device)
{
    CUcontext now = NULL;
    cudaError_t r = rt_ready();
    if (r)
        return rt_kept(r);
    *device = device_here;
    if (driver.cuCtxGetCurrent(&now) == CUDA_SUCCESS && now)
        driver.cuCtxGetDevice(device);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t r = last;
    last = cudaSuccess;
    return r;
}

cudaError_t cudaPeekAtLastError(void) { return last; }
cudaError_t cudaDeviceSynchronize(void) { WITH_CONTEXT(driver.cuCtxSynchronize_v2(NULL)); }

/* The next call begins anew. */
cudaError_t cudaDeviceReset(void)
{
    cudaError_t r = rt_context();
    if (!r)
        r = (cudaError_t)driver.cuDevicePrimaryCtxReset_v2(device_here);
    pthread_mutex_lock(&lock);
    primary[device_here] = NULL;
    pthread_mutex_unlock(&lock);
    if (!r)
        r = (cudaError_t)driver.cuCtxSetCurrent(NULL);
    return rt_kept(r);
}
