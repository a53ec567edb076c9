/* What NVML's newer and rarer functions show, on a library that shows the whole card and a neighbour. */
#include <dlfcn.h>
#include <string.h>

#include "harness.h"

#define TILE (2000ull * MIB)
#define NEIGHBOUR 4242u
#define COMPUTE 0
#define GPU_UTILIZATION 1

/* Loaded before the hook looks for one, this is the machine's NVML. */
static nvmlDevice_t whole_card(void) {
    char path[512];
    nvmlDevice_t device;
    snprintf(path, sizeof path, "%s/whole-card/libnvidia-ml.so.1", getenv("TEST_BUILD"));
    CHECK(dlopen(path, RTLD_NOW | RTLD_GLOBAL));
    begin();
    EQUAL(allocate(500, NULL), 0);
    EQUAL(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device), 0);
    return device;
}

TEST(nvml_shows_no_whole_card_anywhere, "memory=2000", NULL) {
    nvmlDevice_t device = whole_card();
    nvmlBAR1Memory_t bar;
    nvmlMemory_t memory;
    nvmlConfComputeMemSizeInfo_t sizes;
    nvmlDeviceAttributes_t attributes;
    EQUAL(NVML(nvmlDeviceGetBAR1MemoryInfo)(device, &bar), 0);
    EQUAL(bar.bar1Total, TILE);
    EQUAL(bar.bar1Free, TILE);
    EQUAL(bar.bar1Used, 0);
    EQUAL(NVML(nvmlDeviceGetConfComputeProtectedMemoryUsage)(device, &memory), 0);
    EQUAL(memory.total, TILE);
    EQUAL(memory.used, 500 * MIB);
    EQUAL(memory.free, TILE - 500 * MIB);
    EQUAL(NVML(nvmlDeviceGetConfComputeMemSizeInfo)(device, &sizes), 0);
    EQUAL(sizes.protectedMemSizeKib, TILE >> 10);
    EQUAL(sizes.unprotectedMemSizeKib, TILE >> 10);
    EQUAL(NVML(nvmlDeviceGetAttributes)(device, &attributes), 0);
    EQUAL(attributes.memorySizeMB, 2000);
    EQUAL(NVML(nvmlDeviceGetAttributes_v2)(device, &attributes), 0);
    EQUAL(attributes.memorySizeMB, 2000);
}

TEST(nvml_shows_no_neighbours_anywhere, "memory=2000", NULL) {
    nvmlDevice_t device = whole_card();
    unsigned own = (unsigned)getpid(), count = 4, fps = 9, latency = 9, pids[4];
    nvmlProcessUtilizationSample_t sample[4];
    nvmlProcessUtilizationInfo_v1_t utilization[4];
    nvmlProcessesUtilizationInfo_v1_t all = {.processSamplesCount = 4, .procUtilArray = utilization};
    nvmlEncoderSessionInfo_t encoder[4];
    nvmlFBCSessionInfo_t capture[4];
    nvmlAccountingStats_t stats;
    nvmlAccountingStats_v2_t stats_v2 = {.pid = NEIGHBOUR};
    char name[64];
    EQUAL(NVML(nvmlDeviceGetProcessUtilization)(device, sample, &count, 0), 0);
    EQUAL(count, 1);
    EQUAL(sample[0].pid, own);
    EQUAL(NVML(nvmlDeviceGetProcessesUtilizationInfo)(device, &all), 0);
    EQUAL(all.processSamplesCount, 1);
    EQUAL(utilization[0].pid, own);
    EQUAL(NVML(nvmlDeviceGetEncoderSessions)(device, &count, encoder), 0);
    EQUAL(count, 1);
    EQUAL(encoder[0].pid, own);
    EQUAL(NVML(nvmlDeviceGetFBCSessions)(device, &count, capture), 0);
    EQUAL(count, 1);
    EQUAL(capture[0].pid, own);
    EQUAL(NVML(nvmlDeviceGetEncoderStats)(device, &count, &fps, &latency), 0);
    EQUAL(count + fps + latency, 0);
    EQUAL(NVML(nvmlDeviceGetAccountingPids)(device, &count, pids), 0);
    EQUAL(count, 1);
    EQUAL(pids[0], own);
    EQUAL(NVML(nvmlDeviceGetAccountingStats)(device, NEIGHBOUR, &stats), NVML_ERROR_NOT_FOUND);
    EQUAL(NVML(nvmlDeviceGetAccountingStats)(device, own, &stats), 0);
    EQUAL(NVML(nvmlDeviceGetAccountingStats_v2)(device, &stats_v2), NVML_ERROR_NOT_FOUND);
    stats_v2.pid = own;
    EQUAL(NVML(nvmlDeviceGetAccountingStats_v2)(device, &stats_v2), 0);
    EQUAL(NVML(nvmlSystemGetProcessName)(NEIGHBOUR, name, sizeof name), NVML_ERROR_NOT_FOUND);
    EQUAL(NVML(nvmlSystemGetProcessName)(own, name, sizeof name), 0);
}

#define NONE(symbol, info)                              \
    do {                                                \
        info infos_[4];                                 \
        unsigned count_ = 4;                            \
        EQUAL(NVML(symbol)(device, &count_, infos_), 0); \
        EQUAL(count_, 0);                               \
    } while (0)
TEST(nvml_shows_no_graphics_and_no_clients_of_mps, "memory=2000", NULL) {
    nvmlDevice_t device = whole_card();
    NONE(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t);
    NONE(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t);
    NONE(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t);
    NONE(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t);
    NONE(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t);
    NONE(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t);
}

TEST(nvml_lists_own_processes_in_detail, "memory=2000", NULL) {
    nvmlDevice_t device = whole_card();
    nvmlProcessDetail_v1_t detail[4];
    nvmlProcessDetailList_v1_t list = {.mode = COMPUTE};
    EQUAL(NVML(nvmlDeviceGetRunningProcessDetailList)(device, &list), NVML_ERROR_INSUFFICIENT_SIZE);
    EQUAL(list.numProcArrayEntries, 1);
    list.procArray = detail;
    EQUAL(NVML(nvmlDeviceGetRunningProcessDetailList)(device, &list), 0);
    EQUAL(detail[0].pid, getpid());
    CHECK(detail[0].usedGpuMemory >= 500 * MIB && detail[0].usedGpuMemory < TILE);
    list.mode = 1; /* graphics */
    list.numProcArrayEntries = 4;
    EQUAL(NVML(nvmlDeviceGetRunningProcessDetailList)(device, &list), 0);
    EQUAL(list.numProcArrayEntries, 0);
}

TEST(nvml_samples_are_of_the_tile_where_utilization_is, "cores=40 flags=8", NULL) {
    nvmlDevice_t device = whole_card();
    nvmlUtilization_t rates;
    nvmlSample_t sample;
    int type;
    unsigned count = 1;
    EQUAL(NVML(nvmlDeviceGetUtilizationRates)(device, &rates), 0);
    EQUAL(rates.gpu, 50);
    EQUAL(NVML(nvmlDeviceGetSamples)(device, GPU_UTILIZATION, 0, &type, &count, &sample), 0);
    EQUAL(sample.sampleValue, 50);
    EQUAL(NVML(nvmlDeviceGetSamples)(device, 2, 0, &type, &count, &sample), 0);
    EQUAL(sample.sampleValue, 20);
}
