/* NVML: what a card is and how it is. */
#include "nvml_local.h"

#include <stdio.h>
#include <string.h>

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *out)
{
    CARD(device, out);
    *out = device->index;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    CARD(device, minor);
    *minor = card->minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    CARD(device, name);
    return sim_nvml_text(card->name, name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    char text[SIM_UUID_TEXT];
    CARD(device, uuid);
    sim_uuid_text(index, text);
    return sim_nvml_text(text, uuid, length);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    char text[32];
    CARD(device, serial);
    snprintf(text, sizeof text, "%013u", 1000u + index);
    return sim_nvml_text(text, serial, length);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    CARD(device, pci);
    memset(pci, 0, sizeof *pci);
    pci->domain = card->pci_domain;
    pci->bus = card->pci_bus;
    pci->device = card->pci_device;
    pci->pciDeviceId = 0x20b010de;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff, pci->device & 0xff);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci) { return nvmlDeviceGetPciInfo_v3(device, pci); }
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci) { return nvmlDeviceGetPciInfo_v3(device, pci); }

/* v1 knows no reserved memory: it counts as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    uint64_t used;
    CARD(device, memory);
    sim_used(index, &used);
    memory->total = card->bytes;
    memory->used = used + card->reserved;
    memory->free = card->bytes - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    uint64_t used;
    CARD(device, memory);
    if (memory->version != NVML_MEMORY_V2_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    sim_used(index, &used);
    memory->total = card->bytes;
    memory->reserved = card->reserved;
    memory->used = used;
    memory->free = card->bytes - card->reserved - used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    CARD(device, memory);
    *memory = (nvmlBAR1Memory_t){.bar1Total = card->bytes, .bar1Free = card->bytes - (2 << 20), .bar1Used = 2 << 20};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    CARD(device, utilization);
    if (card->mig || card->parent != SIM_NONE)
        return NVML_ERROR_NOT_SUPPORTED; /* neither a card in MIG mode nor a slice has one */
    sim_lock();
    sim_sweep_for_reader();
    sim_catch_up(index);
    utilization->gpu = sim->card[index].last_percent;
    utilization->memory = sim->card[index].last_percent / 2; /* assumed: half as busy */
    sim_unlock();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
    CARD(device, mode);
    *mode = (nvmlComputeMode_t)card->compute_mode;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode)
{
    CARD(device, true);
    if ((unsigned)mode > NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
        return NVML_ERROR_INVALID_ARGUMENT;
    sim->config.card[index].compute_mode = (int)mode; /* shown, not enforced */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    CARD(device, mode);
    *mode = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    CARD(device, major && minor);
    *major = card->capability / 10;
    *minor = card->capability % 10;
    return NVML_SUCCESS;
}

/* Assumed: cards sit in pairs behind one switch, pairs of a NUMA node behind its host bridges. */
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuTopologyLevel_t *level)
{
    uint32_t other;
    CARD(a, level);
    nvmlReturn_t r = sim_nvml_card(b, &other);
    if (r)
        return r;
    *level = index == other ? NVML_TOPOLOGY_INTERNAL
             : index / 2 == other / 2 ? NVML_TOPOLOGY_SINGLE
             : card->numa == sim->config.card[other].numa ? NVML_TOPOLOGY_NODE
                                                          : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *celsius)
{
    CARD(device, celsius && sensor == 0);
    *celsius = 35 + sim->card[index].last_percent / 3;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts)
{
    CARD(device, milliwatts);
    *milliwatts = 60000 + 3000 * sim->card[index].last_percent;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *cores)
{
    CARD(device, cores);
    *cores = card->sms * 64;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size, unsigned long *nodes, unsigned int scope)
{
    CARD(device, nodes && size);
    (void)scope;
    memset(nodes, 0, size * sizeof *nodes);
    nodes[0] = 1ul << card->numa;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
    CARD(device, node);
    *node = card->numa;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *active)
{
    CARD(device, active);
    (void)link;
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
    CARD(device, pci);
    (void)link;
    return NVML_ERROR_NOT_SUPPORTED;
}
