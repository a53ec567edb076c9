/* NVML as the container sees it, and with it nvidia-smi: the tile instead of the card, the
 * container's own processes under their own pids. The library answers first, so that errors and
 * missing arguments stay its own. */
#include <string.h>

#include "charge.h"
#include "limits.h"
#include "overhead.h"
#include "slots.h"
#include "start.h"
#include "usage_map.h"
#include "view.h"

#define ENTER(symbol, args)                           \
    do {                                              \
        if (ts_unlikely(ts_state_nvml != 2))          \
            ts_start_nvml();                          \
        if (ts_unlikely(!real.symbol))                \
            return NVML_ERROR_FUNCTION_NOT_FOUND;     \
        if (ts_unlikely(!ts_active))                  \
            return real.symbol args;                  \
    } while (0)

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

static struct ts_card *card_of(nvmlDevice_t device) {
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
    struct ts_card *card = card_of(device);
    if (!card || (card->granted && !card->limit_bytes))
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
    ENTER(nvmlDeviceGetMemoryInfo, (device, memory));
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
    ENTER(nvmlDeviceGetMemoryInfo_v2, (device, memory));
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

struct listed {
    unsigned pid;
    unsigned long long bytes;
};

static unsigned list(const struct ts_card *card, struct listed *out, unsigned room) {
    struct tessera_usage *usage = ts_usage();
    unsigned n = 0;
    for (uint32_t i = 0; i < TESSERA_SLOTS; i++) {
        const struct tessera_slot *slot = &usage->slot[i];
        if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != TESSERA_SLOT_LIVE || slot->card != card->index ||
            !ts_slot_alive(slot, i))
            continue;
        unsigned long long bytes = slot->overhead_bytes;
        for (int kind = 0; kind < TESSERA_KINDS; kind++)
            bytes += slot->bytes[kind];
        if (n < room)
            out[n] = (struct listed){(unsigned)slot->pid, bytes};
        n++;
    }
    return n;
}

/* The size is asked with a count of zero, or with room that is too small. */
#define PROCESS_LIST(symbol, info)                                                               \
    nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *count, info *infos) {                 \
        ENTER(symbol, (device, count, infos));                                                   \
        struct listed found[TESSERA_SLOTS];                                                      \
        struct ts_card *card = count ? card_of(device) : NULL;                                   \
        if (!card)                                                                               \
            return real.symbol(device, count, infos);                                            \
        unsigned n = list(card, found, TESSERA_SLOTS), room = *count;                            \
        *count = n;                                                                              \
        if (n > room || (n && !infos))                                                           \
            return NVML_ERROR_INSUFFICIENT_SIZE;                                                 \
        for (unsigned i = 0; i < n; i++) {                                                       \
            memset(&infos[i], 0, sizeof infos[i]);                                               \
            infos[i].pid = found[i].pid;                                                         \
            infos[i].usedGpuMemory = found[i].bytes;                                             \
            WITHOUT_INSTANCE(&infos[i]);                                                         \
        }                                                                                        \
        return NVML_SUCCESS;                                                                     \
    }

/* Others' graphics and MPS processes are none of the container's business. */
#define EMPTY_LIST(symbol, info)                                                                 \
    nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *count, info *infos) {                 \
        ENTER(symbol, (device, count, infos));                                                   \
        if (!count || !card_of(device))                                                          \
            return real.symbol(device, count, infos);                                            \
        *count = 0;                                                                              \
        return NVML_SUCCESS;                                                                     \
    }

#define WITHOUT_INSTANCE(at) ((void)0)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
#undef WITHOUT_INSTANCE
#define WITHOUT_INSTANCE(at) ((at)->gpuInstanceId = (at)->computeInstanceId = NVML_NO_INSTANCE)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    ENTER(nvmlDeviceGetUtilizationRates, (device, utilization));
    nvmlReturn_t r = real.nvmlDeviceGetUtilizationRates(device, utilization);
    struct ts_card *card = r == NVML_SUCCESS ? card_of(device) : NULL;
    if (card && (ts_limits_flags() & TESSERA_SCALE_UTILIZATION) && card->rate_permille < 1000) {
        unsigned scaled = utilization->gpu * 1000 / card->rate_permille;
        utilization->gpu = scaled < 100 ? scaled : 100;
    }
    return r;
}

/* Samples carry the host's pids: those of other containers are nobody's business here, and ours
 * cannot be told from them by number. The library's errors stay; a success becomes an empty list. */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long last_seen) {
    ENTER(nvmlDeviceGetProcessUtilization, (device, samples, count, last_seen));
    nvmlReturn_t r = real.nvmlDeviceGetProcessUtilization(device, samples, count, last_seen);
    if (!count || !samples || r != NVML_SUCCESS || !card_of(device))
        return r;
    unsigned kept = 0;
    struct listed found[TESSERA_SLOTS];
    unsigned ours = list(card_of(device), found, TESSERA_SLOTS);
    for (unsigned i = 0; i < *count; i++)
        for (unsigned j = 0; j < ours && j < TESSERA_SLOTS; j++)
            if (samples[i].pid == found[j].pid) {
                samples[kept++] = samples[i];
                break;
            }
    *count = kept;
    return kept ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
