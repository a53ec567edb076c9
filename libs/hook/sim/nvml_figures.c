/* NVML: what monitoring tools print beside memory and utilisation. Figures of an A100-class card, at rest where nothing is simulated. */
#include "nvml_local.h"

#define FIGURE(name, figure)                                                   \
    nvmlReturn_t nvmlDeviceGet##name(nvmlDevice_t device, unsigned int *value) \
    {                                                                          \
        CARD(device, value);                                                   \
        *value = (figure);                                                     \
        return NVML_SUCCESS;                                                   \
    }
FIGURE(Brand, 2)                              /* a data centre card */
FIGURE(Architecture, card->capability >= 90 ? 9 : 7)
FIGURE(PerformanceState, 0)
FIGURE(PowerState, 0)
FIGURE(PowerManagementMode, 1)
FIGURE(PowerManagementLimit, 400000)          /* milliwatts */
FIGURE(PowerManagementDefaultLimit, 400000)
FIGURE(EnforcedPowerLimit, 400000)
FIGURE(DisplayMode, 0)
FIGURE(DisplayActive, 0)
FIGURE(CurrPcieLinkGeneration, 4)
FIGURE(CurrPcieLinkWidth, 16)
FIGURE(MaxPcieLinkGeneration, 4)
FIGURE(MaxPcieLinkWidth, 16)
FIGURE(MemoryBusWidth, 5120)
FIGURE(VirtualizationMode, 0)
FIGURE(MultiGpuBoard, 0)
FIGURE(BoardId, card->pci_bus << 8)

/* No encoder, decoder or other engine is ever busy here. */
#define ENGINE(name)                                                                                                           \
    nvmlReturn_t nvmlDeviceGet##name##Utilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us) \
    {                                                                                                                          \
        CARD(device, percent && period_us);                                                                                    \
        *percent = 0;                                                                                                          \
        *period_us = (unsigned)(sim->config.sample_ns / 1000);                                                                 \
        return NVML_SUCCESS;                                                                                                   \
    }
ENGINE(Encoder)
ENGINE(Decoder)
ENGINE(Jpg)
ENGINE(Ofa)

nvmlReturn_t nvmlDeviceGetEncoderSessions(nvmlDevice_t device, unsigned int *count, nvmlEncoderSessionInfo_t *infos)
{
    CARD(device, count);
    (void)infos;
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFBCSessions(nvmlDevice_t device, unsigned int *count, nvmlFBCSessionInfo_t *infos)
{
    CARD(device, count);
    (void)infos;
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *sessions, unsigned int *fps, unsigned int *latency)
{
    CARD(device, sessions && fps && latency);
    *sessions = *fps = *latency = 0;
    return NVML_SUCCESS;
}

/* Confidential computing is off. */
nvmlReturn_t nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device, nvmlMemory_t *memory)
{
    CARD(device, memory);
    *memory = (nvmlMemory_t){0};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t device, nvmlConfComputeMemSizeInfo_t *sizes)
{
    CARD(device, sizes);
    *sizes = (nvmlConfComputeMemSizeInfo_t){.unprotectedMemSizeKib = card->bytes >> 10};
    return NVML_SUCCESS;
}

static nvmlReturn_t clock_of(int type, unsigned *mhz)
{
    static const unsigned clocks[] = {1410, 1410, 1215, 1275}; /* graphics, SM, memory, video */
    if (type < 0 || type > 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    *mhz = clocks[type];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned int *mhz)
{
    CARD(device, mhz);
    return clock_of(type, mhz);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned int *mhz)
{
    CARD(device, mhz);
    return clock_of(type, mhz);
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int counter, unsigned int *kib)
{
    CARD(device, kib && (unsigned)counter < 2);
    *kib = 0;
    return NVML_SUCCESS;
}

/* 60 W at rest and 300 W more while busy, as nvmlDeviceGetPowerUsage has it. */
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules)
{
    CARD(device, millijoules);
    sim_lock();
    sim_catch_up(index);
    *millijoules = (sim->card[index].now * 60 + sim->card[index].busy_ns * 300) / 1000000;
    sim_unlock();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    CARD(device, current && pending);
    *current = *pending = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int kind, int counter, unsigned long long *errors)
{
    CARD(device, errors);
    (void)kind, (void)counter;
    *errors = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    CARD(device, reasons);
    *reasons = sim->card[index].last_percent ? 0 : 1; /* idle */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int kind, unsigned int *celsius)
{
    static const unsigned thresholds[] = {92, 89, 95, 85}; /* shutdown, slowdown, memory, GPU */
    CARD(device, celsius && kind >= 0);
    if (kind > 3)
        return NVML_ERROR_NOT_SUPPORTED;
    *celsius = thresholds[kind];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *low, unsigned int *high)
{
    CARD(device, low && high);
    *low = 100000;
    *high = 400000;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    CARD(device, version);
    return sim_nvml_text("92.00.45.00.03", version, length);
}

/* What no simulated card has: fields, a fabric, NVLinks. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    CARD(device, values && count > 0);
    for (int i = 0; i < count; i++) {
        values[i].timestamp = (long long)(sim->origin_us + sim_now() / 1000);
        values[i].latencyUsec = 0;
        values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *info)
{
    CARD(device, info);
    unsigned form = info->version >> 24; /* a third form only adds to the end */
    if (form != 2 && form != 3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    *info = (nvmlGpuFabricInfo_v2_t){.version = info->version, .status = NVML_SUCCESS};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link, int *type)
{
    CARD(device, type);
    return link < 18 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}
