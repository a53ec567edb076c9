/* NVML: start, versions, error names, finding devices. Initialisation is counted; every other call fails before it. */
#include "nvml_local.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static unsigned users;
static struct nvmlDevice_st devices[SIM_CARDS], slices[SIM_CARDS];
static uint32_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

nvmlReturn_t nvmlInit_v2(void)
{
    nvmlReturn_t r = NVML_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!users) {
        uint32_t cards[SIM_CARDS];
        if (!sim_open())
            r = NVML_ERROR_DRIVER_NOT_LOADED;
        else {
            count = sim_visible(cards);
            for (uint32_t i = 0; i < count; i++)
                devices[i] = (struct nvmlDevice_st){0x4e564d4c, i, cards[i]};
            for (uint32_t i = 0; i < SIM_CARDS; i++)
                slices[i] = (struct nvmlDevice_st){0x4e564d4c, sim->config.card[i].slice, i};
        }
    }
    users += r == NVML_SUCCESS;
    pthread_mutex_unlock(&lock);
    return r;
}

nvmlReturn_t nvmlInit(void) { return nvmlInit_v2(); }

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    return nvmlInit_v2();
}

nvmlReturn_t nvmlShutdown(void)
{
    pthread_mutex_lock(&lock);
    nvmlReturn_t r = users ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    users -= users > 0;
    pthread_mutex_unlock(&lock);
    return r;
}

nvmlReturn_t sim_nvml_ready(void) { return users ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED; }
uint32_t sim_nvml_count(void) { return count; }
nvmlDevice_t sim_nvml_device(uint32_t index) { return &devices[index]; }

nvmlDevice_t sim_nvml_slice(uint32_t card) { return &slices[card]; }

nvmlReturn_t sim_nvml_card(nvmlDevice_t device, uint32_t *card)
{
    READY();
    bool slice = device >= slices && device < slices + sim->config.cards && sim->config.card[device - slices].parent != SIM_NONE;
    if (!slice && (device < devices || device >= devices + count))
        return NVML_ERROR_INVALID_ARGUMENT;
    *card = device->card;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvml_text(const char *from, char *to, unsigned length)
{
    if (!to)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(from) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, from);
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
#define ROW(name, value, text) \
    case name: return text;
        NVML_RESULTS(ROW)
#undef ROW
    default: return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    READY();
    return sim_nvml_text(sim->config.driver_version, version, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    char text[64];
    READY();
    snprintf(text, sizeof text, "%u.%s", sim->config.cuda_version / 1000, sim->config.driver_version);
    return sim_nvml_text(text, version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    READY();
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = (int)sim->config.cuda_version;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    char path[64], text[4096] = "";
    READY();
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return NVML_ERROR_NOT_FOUND;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    return sim_nvml_text(text, name, length);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n)
{
    READY();
    if (!n)
        return NVML_ERROR_INVALID_ARGUMENT;
    *n = count;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *n) { return nvmlDeviceGetCount_v2(n); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    READY();
    if (!device || index >= count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = &devices[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) { return nvmlDeviceGetHandleByIndex_v2(index, device); }

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    READY();
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < count; i++) {
        char text[SIM_UUID_TEXT];
        sim_uuid_text(devices[i].card, text);
        if (strcasecmp(text, uuid) == 0) {
            *device = &devices[i];
            return NVML_SUCCESS;
        }
    }
    for (uint32_t i = 0; i < sim->config.cards; i++) {
        char text[SIM_UUID_TEXT];
        sim_uuid_text(i, text);
        if (sim->config.card[i].parent != SIM_NONE && strcasecmp(text, uuid) == 0) {
            *device = &slices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
    unsigned domain, bus, dev;
    READY();
    if (!id || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (sscanf(id, "%x:%x:%x", &domain, &bus, &dev) != 3) {
        domain = 0;
        if (sscanf(id, "%x:%x", &bus, &dev) != 2)
            return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (uint32_t i = 0; i < count; i++) {
        const SimCardConfig *card = &sim->config.card[devices[i].card];
        if (card->pci_domain == domain && card->pci_bus == bus && card->pci_device == dev) {
            *device = &devices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device) { return nvmlDeviceGetHandleByPciBusId_v2(id, device); }
