/* An NVML that shows all of card 0 and a neighbour's process 4242 wherever a function can show one, for
 * functions that the simulated machine does not have. Process 0 stands for the caller. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "nvml_abi.h"

#define NEIGHBOUR 4242u
#define UNSIGNED_INT 1
#define GIB (1ull << 30)
#define SHOW __attribute__((visibility("default"))) nvmlReturn_t

SHOW nvmlInit_v2(void) { return NVML_SUCCESS; }
SHOW nvmlShutdown(void) { return NVML_SUCCESS; }
SHOW nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    static char card;
    *device = (nvmlDevice_t)&card;
    return index ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}
SHOW nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    unsigned char b[16];
    (void)device;
    for (int i = 0; i < 16; i++)
        b[i] = (unsigned char)(i ? 0x51 * (i + 1) : 0);
    snprintf(uuid, length, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
             b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    (void)device;
    *utilization = (nvmlUtilization_t){20, 20};
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory) {
    (void)device;
    *memory = (nvmlBAR1Memory_t){16 * GIB, 10 * GIB, 6 * GIB};
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device, nvmlMemory_t *memory) {
    (void)device;
    *memory = (nvmlMemory_t){16 * GIB, 10 * GIB, 6 * GIB};
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t device, nvmlConfComputeMemSizeInfo_t *sizes) {
    (void)device;
    *sizes = (nvmlConfComputeMemSizeInfo_t){16 * GIB >> 10, 16 * GIB >> 10};
    return NVML_SUCCESS;
}
static nvmlReturn_t attributes_of(nvmlDeviceAttributes_t *attributes) {
    *attributes = (nvmlDeviceAttributes_t){.memorySizeMB = 16384};
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) { (void)device; return attributes_of(attributes); }
SHOW nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) { (void)device; return attributes_of(attributes); }
SHOW nvmlDeviceGetSamples(nvmlDevice_t device, int type, unsigned long long last_seen, int *value_type, unsigned int *count, nvmlSample_t *samples) {
    (void)device, (void)type, (void)last_seen;
    *value_type = UNSIGNED_INT;
    *count = 1;
    samples[0] = (nvmlSample_t){.timeStamp = 1, .sampleValue = 20};
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *list) {
    (void)device;
    unsigned room = list->numProcArrayEntries;
    list->numProcArrayEntries = 1;
    if (!room || !list->procArray)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    list->procArray[0] = (nvmlProcessDetail_v1_t){NEIGHBOUR, 6 * GIB, 0, 0, 0};
    return NVML_SUCCESS;
}

#define NEIGHBOURS(symbol, info)                                                       \
    SHOW symbol(nvmlDevice_t device, unsigned int *count, info *infos) {               \
        (void)device;                                                                  \
        memset(infos, 0, sizeof *infos);                                               \
        infos[0].pid = NEIGHBOUR;                                                      \
        *count = 1;                                                                    \
        return NVML_SUCCESS;                                                           \
    }
NEIGHBOURS(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
NEIGHBOURS(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
NEIGHBOURS(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
NEIGHBOURS(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
NEIGHBOURS(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
NEIGHBOURS(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

/* A neighbour's and the caller's, in whatever has a field for a pid. */
#define BOTH(things, count)                     \
    do {                                        \
        memset(things, 0, 2 * sizeof *(things)); \
        (things)[0].pid = NEIGHBOUR;            \
        (things)[1].pid = (unsigned)getpid();   \
        (count) = 2;                            \
    } while (0)
SHOW nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned int *count, unsigned long long last_seen) {
    (void)device, (void)last_seen;
    BOTH(samples, *count);
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t *info) {
    (void)device;
    BOTH(info->procUtilArray, info->processSamplesCount);
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetEncoderSessions(nvmlDevice_t device, unsigned int *count, nvmlEncoderSessionInfo_t *infos) {
    (void)device;
    BOTH(infos, *count);
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetFBCSessions(nvmlDevice_t device, unsigned int *count, nvmlFBCSessionInfo_t *infos) {
    (void)device;
    BOTH(infos, *count);
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *sessions, unsigned int *fps, unsigned int *latency) {
    (void)device;
    *sessions = *fps = *latency = 7;
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids) {
    (void)device;
    pids[0] = NEIGHBOUR;
    pids[1] = (unsigned)getpid();
    *count = 2;
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid, nvmlAccountingStats_t *stats) {
    (void)device, (void)pid;
    *stats = (nvmlAccountingStats_t){.maxMemoryUsage = 6 * GIB};
    return NVML_SUCCESS;
}
SHOW nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats) {
    (void)device;
    stats->maxMemoryUsage = 6 * GIB;
    return NVML_SUCCESS;
}
SHOW nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length) {
    snprintf(name, length, "/bin/of-%u", pid);
    return NVML_SUCCESS;
}
