/* NVML's binary interface as far as this project calls, wraps or simulates it. Written from ABI facts; additive only.
 * The unversioned running-process calls take the 16-byte v1 structure; _v2 and _v3 take the 24-byte one. */
#ifndef TESSERA_ABI_NVML_ABI_H
#define TESSERA_ABI_NVML_ABI_H

#ifndef NVML_ABI_API
#define NVML_ABI_API __attribute__((visibility("default")))
#endif

#define NVML_RESULTS(X)                                                              \
    X(NVML_SUCCESS, 0, "Success")                                                    \
    X(NVML_ERROR_UNINITIALIZED, 1, "Uninitialized")                                  \
    X(NVML_ERROR_INVALID_ARGUMENT, 2, "Invalid Argument")                            \
    X(NVML_ERROR_NOT_SUPPORTED, 3, "Not Supported")                                  \
    X(NVML_ERROR_NO_PERMISSION, 4, "Insufficient Permissions")                       \
    X(NVML_ERROR_ALREADY_INITIALIZED, 5, "Already Initialized")                      \
    X(NVML_ERROR_NOT_FOUND, 6, "Not Found")                                          \
    X(NVML_ERROR_INSUFFICIENT_SIZE, 7, "Insufficient Size")                          \
    X(NVML_ERROR_DRIVER_NOT_LOADED, 9, "Driver Not Loaded")                          \
    X(NVML_ERROR_TIMEOUT, 10, "Timeout")                                             \
    X(NVML_ERROR_LIBRARY_NOT_FOUND, 12, "NVML Shared Library Not Found")             \
    X(NVML_ERROR_FUNCTION_NOT_FOUND, 13, "Function Not Found")                       \
    X(NVML_ERROR_GPU_IS_LOST, 15, "GPU is lost")                                     \
    X(NVML_ERROR_OPERATING_SYSTEM, 17, "GPU access blocked by the operating system") \
    X(NVML_ERROR_MEMORY, 20, "Insufficient Memory")                                  \
    X(NVML_ERROR_NO_DATA, 21, "No data")                                             \
    X(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, 25, "Argument version mismatch")         \
    X(NVML_ERROR_UNKNOWN, 999, "Unknown Error")

typedef enum nvmlReturn_enum {
#define NVML_RESULT_MEMBER(name, value, text) name = value,
    NVML_RESULTS(NVML_RESULT_MEMBER)
#undef NVML_RESULT_MEMBER
} nvmlReturn_t;

typedef enum nvmlComputeMode_enum { NVML_COMPUTEMODE_DEFAULT = 0, NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1, NVML_COMPUTEMODE_PROHIBITED = 2, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3 } nvmlComputeMode_t;
typedef enum nvmlEnableState_enum { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 } nvmlEnableState_t;
typedef enum nvmlGpuLevel_enum {
    NVML_TOPOLOGY_INTERNAL = 0,
    NVML_TOPOLOGY_SINGLE = 10,
    NVML_TOPOLOGY_MULTIPLE = 20,
    NVML_TOPOLOGY_HOSTBRIDGE = 30,
    NVML_TOPOLOGY_NODE = 40,
    NVML_TOPOLOGY_SYSTEM = 50
} nvmlGpuTopologyLevel_t;

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

#define NVML_VALUE_NOT_AVAILABLE_ULL (~0ULL)
#define NVML_NO_INSTANCE 0xFFFFFFFFu
#define NVML_EVENT_XID_CRITICAL 0x8ULL

typedef struct nvmlMemory_st {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct nvmlMemory_v2_st {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
#define NVML_MEMORY_V2_VERSION ((unsigned int)(sizeof(nvmlMemory_v2_t) | (2u << 24)))

typedef struct nvmlBAR1Memory_st {
    unsigned long long bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;

typedef struct nvmlUtilization_st {
    unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct nvmlProcessInfo_v1_st {
    unsigned int pid;
    unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct nvmlProcessInfo_v2_st {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;
typedef nvmlProcessInfo_v2_t nvmlProcessInfo_t;

typedef struct nvmlProcessUtilizationSample_st {
    unsigned int pid;
    unsigned long long timeStamp; /* microseconds */
    unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct nvmlPciInfo_st {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct nvmlProcessUtilizationInfo_v1_st {
    unsigned long long timeStamp; /* microseconds */
    unsigned int pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;

typedef struct nvmlProcessesUtilizationInfo_v1_st {
    unsigned int version, processSamplesCount;
    unsigned long long lastSeenTimeStamp;
    nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t;
#define NVML_PROCESSES_UTILIZATION_V1_VERSION ((unsigned int)(sizeof(nvmlProcessesUtilizationInfo_v1_t) | (1u << 24)))

typedef struct nvmlProcessDetail_v1_st {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
    unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct nvmlProcessDetailList_v1_st {
    unsigned int version, mode, numProcArrayEntries; /* mode: 0 compute, 1 graphics, 2 MPS, 3 all */
    nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;
#define NVML_PROCESS_DETAIL_LIST_V1_VERSION ((unsigned int)(sizeof(nvmlProcessDetailList_v1_t) | (1u << 24)))

typedef struct nvmlAccountingStats_st {
    unsigned int gpuUtilization, memoryUtilization;
    unsigned long long maxMemoryUsage, time, startTime; /* milliseconds, microseconds */
    unsigned int isRunning;
    unsigned int reserved[5];
} nvmlAccountingStats_t;

typedef struct nvmlAccountingStats_v2_st {
    unsigned int pid, isRunning, gpuUtilization, memoryUtilization;
    unsigned long long maxMemoryUsage;
    unsigned int sampleCount;
    unsigned long long sumGpuUtil, sumFbUtil, time, startTime;
} nvmlAccountingStats_v2_t;

typedef struct nvmlEncoderSessionInfo_st {
    unsigned int sessionId, pid, vgpuInstance, codecType, hResolution, vResolution, averageFps, averageLatency;
} nvmlEncoderSessionInfo_t;

typedef struct nvmlFBCSessionInfo_st {
    unsigned int sessionId, pid, vgpuInstance, displayOrdinal, sessionType, sessionFlags;
    unsigned int hMaxResolution, vMaxResolution, hResolution, vResolution, averageFPS, averageLatency;
} nvmlFBCSessionInfo_t;

typedef struct nvmlConfComputeMemSizeInfo_st {
    unsigned long long protectedMemSizeKib, unprotectedMemSizeKib;
} nvmlConfComputeMemSizeInfo_t;

typedef struct nvmlDeviceAttributes_st {
    unsigned int multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
    unsigned int gpuInstanceSliceCount, computeInstanceSliceCount;
    unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef struct nvmlSample_st {
    unsigned long long timeStamp;
    unsigned long long sampleValue; /* a union: 8 bytes, an unsigned int in most */
} nvmlSample_t;

typedef struct nvmlFieldValue_st {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType, nvmlReturn;
    unsigned long long value; /* a union of 8 bytes */
} nvmlFieldValue_t;

typedef struct nvmlGpuFabricInfo_v2_st {
    unsigned int version;
    unsigned char clusterUuid[16];
    int status;
    unsigned int cliqueId;
    unsigned char state; /* 0: no fabric */
    unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct nvmlEventData_st {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

#define NVML_FN(symbol, params)              \
    NVML_ABI_API nvmlReturn_t symbol params; \
    typedef nvmlReturn_t(*PFN_##symbol) params;
#include "nvml_functions.def"
#undef NVML_FN
NVML_ABI_API const char *nvmlErrorString(nvmlReturn_t result);

#endif
