/* NVML events: a simulated card never fails by itself, so a wait ends with its time. */
#include "nvml_local.h"

#include <stdlib.h>
#include <time.h>

struct nvmlEventSet_st {
    unsigned long long types;
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    READY();
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    *set = calloc(1, sizeof **set);
    return *set ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    READY();
    free(set);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    CARD(device, types);
    *types = NVML_EVENT_XID_CRITICAL;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    CARD(device, set);
    if (types & ~NVML_EVENT_XID_CRITICAL)
        return NVML_ERROR_NOT_SUPPORTED;
    set->types |= types;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    READY();
    if (!set || !data)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct timespec t = {.tv_sec = timeout_ms / 1000, .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    nanosleep(&t, NULL);
    return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms) { return nvmlEventSetWait_v2(set, data, timeout_ms); }
