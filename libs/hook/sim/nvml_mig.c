/* NVML: cards in MIG mode and their slices. */
#include "nvml_local.h"

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    CARD(device, current && pending);
    if (card->parent != SIM_NONE)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = card->mig > 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    CARD(device, count);
    *count = card->mig ? 7 : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is)
{
    CARD(device, is);
    *is = card->parent != SIM_NONE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int at, nvmlDevice_t *slice)
{
    CARD(device, slice);
    for (uint32_t i = 0; i < sim->config.cards; i++)
        if (sim->config.card[i].parent == index && sim->config.card[i].slice == at) {
            *slice = sim_nvml_slice(i);
            return NVML_SUCCESS;
        }
    return card->mig ? NVML_ERROR_NOT_FOUND : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t slice, nvmlDevice_t *device)
{
    CARD(slice, device);
    for (uint32_t i = 0; i < sim_nvml_count(); i++)
        if (sim_nvml_device(i)->card == card->parent) {
            *device = sim_nvml_device(i);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    CARD(device, id);
    if (card->parent == SIM_NONE)
        return NVML_ERROR_NOT_SUPPORTED;
    *id = card->slice + 1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    CARD(device, id);
    *id = 0;
    return card->parent == SIM_NONE ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    CARD(device, attributes);
    if (card->parent == SIM_NONE)
        return NVML_ERROR_NOT_SUPPORTED;
    *attributes = (nvmlDeviceAttributes_t){.multiprocessorCount = card->sms, .sharedCopyEngineCount = 1, .gpuInstanceSliceCount = 1,
                                           .computeInstanceSliceCount = 1, .memorySizeMB = card->bytes >> 20};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) { return nvmlDeviceGetAttributes_v2(device, attributes); }
