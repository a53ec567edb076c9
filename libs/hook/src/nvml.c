/* NVML as the container sees it, and with it nvidia-smi: the tile instead of the card. The library
 * answers first, so that errors and missing arguments stay its own. */
#include "nvml.h"

#include "charge.h"
#include "limits.h"
#include "overhead.h"
#include "relaxed.h"
#include "start.h"
#include "view.h"

#define GPU_UTILIZATION 1 /* a sampling type */
#define UNSIGNED_INT 1    /* a value type */

uint64_t ts_overhead_free_by_nvml(const char *uuid) {
    nvmlDevice_t device;
    nvmlMemory_t memory = {0};
    ts_start_nvml();
    if (!real.nvmlInit_v2 || !real.nvmlShutdown || !real.nvmlDeviceGetHandleByUUID || !real.nvmlDeviceGetMemoryInfo ||
        real.nvmlInit_v2() != NVML_SUCCESS)
        return 0;
    if (real.nvmlDeviceGetHandleByUUID(uuid, &device) != NVML_SUCCESS ||
        real.nvmlDeviceGetMemoryInfo(device, &memory) != NVML_SUCCESS)
        memory.free = 0;
    real.nvmlShutdown();
    return memory.free;
}

struct ts_card *ts_nvml_card(nvmlDevice_t device) {
    char uuid[96] = {0};
    if (!real.nvmlDeviceGetUUID || real.nvmlDeviceGetUUID(device, uuid, sizeof uuid) != NVML_SUCCESS)
        return NULL;
    struct ts_card *card = ts_card_by_uuid(uuid, -1);
    ts_tick();
    return card;
}

struct shown {
    uint64_t total, used, unused;
};

/* What neighbours hold of the card is missing from what is free. 0: shown as it is. */
static int show(nvmlDevice_t device, uint64_t total, uint64_t unused, struct shown *shown) {
    struct ts_card *card = ts_nvml_card(device);
    if (!card || (ts_get(card->granted) && !ts_get(card->limit_bytes)))
        return 0;
    uint64_t charged = ts_charged(card);
    shown->total = ts_view_total(card, total);
    shown->used = charged < shown->total ? charged : shown->total;
    shown->unused = ts_view_free(card, unused, total);
    if (shown->unused > shown->total - shown->used)
        shown->unused = shown->total - shown->used;
    return 1;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    TS_NVML_ENTER(nvmlDeviceGetMemoryInfo, (device, memory));
    nvmlReturn_t r = real.nvmlDeviceGetMemoryInfo(device, memory);
    struct shown shown;
    if (r == NVML_SUCCESS && show(device, memory->total, memory->free, &shown)) {
        memory->total = shown.total;
        memory->used = shown.used;
        memory->free = shown.unused;
    }
    return r;
}

/* The second version has a place for what is neither used here nor free: the three add up. */
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    TS_NVML_ENTER(nvmlDeviceGetMemoryInfo_v2, (device, memory));
    nvmlReturn_t r = real.nvmlDeviceGetMemoryInfo_v2(device, memory);
    struct shown shown;
    if (r == NVML_SUCCESS && show(device, memory->total, memory->free, &shown)) {
        memory->total = shown.total;
        memory->used = shown.used;
        memory->free = shown.unused;
        memory->reserved = shown.total - shown.used - shown.unused;
    }
    return r;
}

/* What the container maps of it is not known to anybody, and what all map is none of its business. */
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory) {
    TS_NVML_ENTER(nvmlDeviceGetBAR1MemoryInfo, (device, memory));
    nvmlReturn_t r = real.nvmlDeviceGetBAR1MemoryInfo(device, memory);
    struct shown shown;
    if (r == NVML_SUCCESS && show(device, memory->bar1Total, memory->bar1Free, &shown)) {
        memory->bar1Total = memory->bar1Free = shown.total;
        memory->bar1Used = 0;
    }
    return r;
}

nvmlReturn_t nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device, nvmlMemory_t *memory) {
    TS_NVML_ENTER(nvmlDeviceGetConfComputeProtectedMemoryUsage, (device, memory));
    nvmlReturn_t r = real.nvmlDeviceGetConfComputeProtectedMemoryUsage(device, memory);
    struct shown shown;
    if (r == NVML_SUCCESS && show(device, memory->total, memory->free, &shown)) {
        memory->total = shown.total;
        memory->used = shown.used;
        memory->free = shown.unused;
    }
    return r;
}

nvmlReturn_t nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t device, nvmlConfComputeMemSizeInfo_t *sizes) {
    TS_NVML_ENTER(nvmlDeviceGetConfComputeMemSizeInfo, (device, sizes));
    nvmlReturn_t r = real.nvmlDeviceGetConfComputeMemSizeInfo(device, sizes);
    struct ts_card *card = r == NVML_SUCCESS ? ts_nvml_card(device) : NULL;
    if (card) {
        sizes->protectedMemSizeKib = ts_view_total(card, sizes->protectedMemSizeKib << 10) >> 10;
        sizes->unprotectedMemSizeKib = ts_view_total(card, sizes->unprotectedMemSizeKib << 10) >> 10;
    }
    return r;
}

/* Of a MIG slice: how large it is. */
#define ATTRIBUTES(symbol)                                                              \
    nvmlReturn_t symbol(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {      \
        TS_NVML_ENTER(symbol, (device, attributes));                                    \
        nvmlReturn_t r = real.symbol(device, attributes);                               \
        struct ts_card *card = r == NVML_SUCCESS ? ts_nvml_card(device) : NULL;         \
        if (card)                                                                       \
            attributes->memorySizeMB = ts_view_total(card, attributes->memorySizeMB << 20) >> 20; \
        return r;                                                                       \
    }
ATTRIBUTES(nvmlDeviceGetAttributes)
ATTRIBUTES(nvmlDeviceGetAttributes_v2)

static unsigned scaled(const struct ts_card *card, unsigned percent) {
    uint32_t rate = card ? __atomic_load_n(&card->rate_permille, __ATOMIC_RELAXED) : 1000;
    if (rate >= 1000 || !(ts_limits_flags() & TESSERA_SCALE_UTILIZATION))
        return percent;
    unsigned of_tile = percent * 1000 / rate;
    return of_tile < 100 ? of_tile : 100;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    TS_NVML_ENTER(nvmlDeviceGetUtilizationRates, (device, utilization));
    nvmlReturn_t r = real.nvmlDeviceGetUtilizationRates(device, utilization);
    if (r == NVML_SUCCESS)
        utilization->gpu = scaled(ts_nvml_card(device), utilization->gpu);
    return r;
}

nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, int type, unsigned long long last_seen,
                                  int *value_type, unsigned int *count, nvmlSample_t *samples) {
    TS_NVML_ENTER(nvmlDeviceGetSamples, (device, type, last_seen, value_type, count, samples));
    nvmlReturn_t r = real.nvmlDeviceGetSamples(device, type, last_seen, value_type, count, samples);
    if (r != NVML_SUCCESS || type != GPU_UTILIZATION || !samples || *value_type != UNSIGNED_INT)
        return r;
    struct ts_card *card = ts_nvml_card(device);
    for (unsigned i = 0; i < *count; i++)
        samples[i].sampleValue = scaled(card, (unsigned)samples[i].sampleValue);
    return r;
}
