/* Devices, versions, errors, entry points of the driver. */
#include <stdint.h>
#include <string.h>

#include "cudart.h"

struct cudaDeviceProp { /* of CUDA 13 */
    char name[256], uuid[16], luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int multiProcessorCount, integrated, canMapHostMemory;
    int textures[39]; /* from maxTexture1D to maxSurfaceCubemapLayered */
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing, memoryBusWidth;
    int l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported, pageableMemoryAccess;
    int concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int rest[20 + 56]; /* from hostRegisterSupported on */
};

API cudaError_t cudaGetDeviceCount(int *count);
API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
API cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);
API cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device);
API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
API cudaError_t cudaDeviceGetGraphMemAttribute(int device, int attribute, void *value);
API cudaError_t cudaDeviceSetGraphMemAttribute(int device, int attribute, void *value);
API cudaError_t cudaDriverGetVersion(int *version);
API cudaError_t cudaRuntimeGetVersion(int *version);
API cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **fn, unsigned version, unsigned long long flags, int *status);
API cudaError_t cudaProfilerStart(void);
API cudaError_t cudaProfilerStop(void);
API const char *cudaGetErrorName(cudaError_t error);
API const char *cudaGetErrorString(cudaError_t error);

cudaError_t cudaGetDeviceCount(int *count) { WITH_DRIVER(driver.cuDeviceGetCount(count)); }
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device) { WITH_DRIVER(driver.cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device)); }
cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) { WITH_DRIVER(driver.cuDeviceGetPCIBusId(id, length, device)); }
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) { WITH_DRIVER(driver.cuDeviceCanAccessPeer(can, device, peer)); }
cudaError_t cudaDeviceGetGraphMemAttribute(int device, int attribute, void *value) { WITH_CONTEXT(driver.cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value)); }
cudaError_t cudaDeviceSetGraphMemAttribute(int device, int attribute, void *value) { WITH_CONTEXT(driver.cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value)); }
cudaError_t cudaDriverGetVersion(int *version) { WITH_DRIVER(driver.cuDriverGetVersion(version)); }

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer, (void)flags;
    return rt_context(); /* copies between simulated cards need no leave */
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = VERSION;
    return cudaSuccess;
}

static int attribute(int device, int which)
{
    int value = 0;
    driver.cuDeviceGetAttribute(&value, (CUdevice_attribute)which, device);
    return value;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    cudaError_t r = rt_ready();
    memset(p, 0, sizeof *p);
    if (!r)
        r = (cudaError_t)driver.cuDeviceGetName(p->name, sizeof p->name, device);
    if (!r)
        r = (cudaError_t)driver.cuDeviceGetUuid_v2((CUuuid *)p->uuid, device);
    if (!r)
        r = (cudaError_t)driver.cuDeviceTotalMem_v2(&p->totalGlobalMem, device);
    if (r)
        return rt_kept(r);
    const struct {
        int which, *place;
    } words[] = {{12, &p->regsPerBlock}, {10, &p->warpSize}, {1, &p->maxThreadsPerBlock}, {2, &p->maxThreadsDim[0]}, {3, &p->maxThreadsDim[1]}, {4, &p->maxThreadsDim[2]},
                 {5, &p->maxGridSize[0]}, {6, &p->maxGridSize[1]}, {7, &p->maxGridSize[2]}, {75, &p->major}, {76, &p->minor}, {16, &p->multiProcessorCount},
                 {18, &p->integrated}, {19, &p->canMapHostMemory}, {31, &p->concurrentKernels}, {32, &p->ECCEnabled}, {33, &p->pciBusID}, {34, &p->pciDeviceID},
                 {50, &p->pciDomainID}, {40, &p->asyncEngineCount}, {41, &p->unifiedAddressing}, {37, &p->memoryBusWidth}, {38, &p->l2CacheSize},
                 {39, &p->maxThreadsPerMultiProcessor}, {78, &p->streamPrioritiesSupported}, {82, &p->regsPerMultiprocessor}, {83, &p->managedMemory},
                 {88, &p->pageableMemoryAccess}, {89, &p->concurrentManagedAccess}, {90, &p->computePreemptionSupported}, {95, &p->cooperativeLaunch},
                 {106, &p->maxBlocksPerMultiProcessor}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        *words[i].place = attribute(device, words[i].which);
    p->sharedMemPerBlock = (size_t)attribute(device, 8);
    p->totalConstMem = (size_t)attribute(device, 9);
    p->memPitch = (size_t)attribute(device, 11);
    p->textureAlignment = (size_t)attribute(device, 14);
    p->texturePitchAlignment = (size_t)attribute(device, 51);
    p->sharedMemPerMultiprocessor = (size_t)attribute(device, 81);
    p->sharedMemPerBlockOptin = (size_t)attribute(device, 97);
    return cudaSuccess;
}

/* What the driver has under a name is in the status; the call itself succeeds. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **fn, unsigned version, unsigned long long flags, int *status)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    cudaError_t r = rt_ready();
    if (r)
        return rt_kept(r);
    *fn = NULL;
    driver.look_up(symbol, fn, (int)version, flags, &found);
    if (status)
        *status = (int)found;
    return cudaSuccess;
}

cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

static const char *told(cudaError_t error, bool name)
{
    static const struct {
        cudaError_t error;
        const char *name, *text;
    } own[] = {{0, "cudaSuccess", "no error"}, {1, "cudaErrorInvalidValue", "invalid argument"}, {2, "cudaErrorMemoryAllocation", "out of memory"},
               {3, "cudaErrorInitializationError", "initialization error"}, {35, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"},
               {98, "cudaErrorInvalidDeviceFunction", "invalid device function"}, {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
               {600, "cudaErrorNotReady", "device not ready"}, {801, "cudaErrorNotSupported", "operation not supported"}};
    const char *text = NULL;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].error == error)
            return name ? own[i].name : own[i].text;
    if (!rt_ready())
        name ? driver.cuGetErrorName((CUresult)error, &text) : driver.cuGetErrorString((CUresult)error, &text);
    return text ? text : name ? "cudaErrorUnknown" : "unknown error";
}

const char *cudaGetErrorName(cudaError_t error) { return told(error, true); }
const char *cudaGetErrorString(cudaError_t error) { return told(error, false); }
