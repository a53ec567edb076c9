/* NVML's processes as the container sees them: its own, under their own pids. Samples, sessions and
 * accounting carry the host's pids: those of other containers are nobody's business here, and where the
 * container has pids of its own, none can be told from a neighbour's by number. */
#include <string.h>

#include "nvml.h"
#include "slots.h"
#include "start.h"
#include "usage_map.h"

enum mode { COMPUTE, GRAPHICS, MPS, ALL };

struct listed {
    unsigned pid;
    unsigned long long bytes;
};

static unsigned list(const struct ts_card *card, struct listed *out, unsigned room) {
    struct tessera_usage *usage = ts_usage();
    unsigned n = 0;
    for (uint32_t i = 0; i < ts_slots_high(); i++) {
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

static int is_ours(const struct ts_card *card, unsigned pid) {
    struct tessera_usage *usage = ts_usage();
    for (uint32_t i = 0; i < ts_slots_high(); i++) {
        const struct tessera_slot *slot = &usage->slot[i];
        if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == TESSERA_SLOT_LIVE && (unsigned)slot->pid == pid &&
            (!card || slot->card == card->index) && ts_slot_alive(slot, i))
            return 1;
    }
    return 0;
}

/* The size is asked with a count of zero, or with room that is too small. */
#define PROCESS_LIST(symbol, info)                                                               \
    nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *count, info *infos) {                 \
        TS_NVML_ENTER(symbol, (device, count, infos));                                                   \
        struct listed found[TESSERA_SLOTS];                                                      \
        struct ts_card *card = count ? ts_nvml_card(device) : NULL;                                   \
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
        TS_NVML_ENTER(symbol, (device, count, infos));                                                   \
        if (!count || !ts_nvml_card(device))                                                          \
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

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *wanted) {
    TS_NVML_ENTER(nvmlDeviceGetRunningProcessDetailList, (device, wanted));
    struct listed found[TESSERA_SLOTS];
    nvmlProcessDetailList_v1_t none = wanted ? *wanted : (nvmlProcessDetailList_v1_t){0};
    none.numProcArrayEntries = 0;
    none.procArray = NULL;
    nvmlReturn_t r = real.nvmlDeviceGetRunningProcessDetailList(device, wanted ? &none : NULL);
    struct ts_card *card = wanted && (r == NVML_SUCCESS || r == NVML_ERROR_INSUFFICIENT_SIZE) ? ts_nvml_card(device) : NULL;
    if (!card)
        return wanted && (r == NVML_SUCCESS || r == NVML_ERROR_INSUFFICIENT_SIZE)
                   ? real.nvmlDeviceGetRunningProcessDetailList(device, wanted)
                   : r;
    int listed = wanted->mode == COMPUTE || wanted->mode == ALL;
    unsigned n = listed ? list(card, found, TESSERA_SLOTS) : 0, room = wanted->numProcArrayEntries;
    wanted->numProcArrayEntries = n;
    if (n > room || (n && !wanted->procArray))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < n; i++)
        wanted->procArray[i] = (nvmlProcessDetail_v1_t){found[i].pid, found[i].bytes, NVML_NO_INSTANCE, NVML_NO_INSTANCE, 0};
    return NVML_SUCCESS;
}

/* Keeps those of `count` things with a pid that are the container's own; how many they are. */
#define KEEP_OURS(card, things, count, kept)               \
    do {                                                   \
        for (unsigned i_ = 0; i_ < (count); i_++)          \
            if (is_ours(card, (things)[i_].pid))           \
                (things)[(kept)++] = (things)[i_];         \
    } while (0)

/* The library's errors stay; a success becomes a list of our own. */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long last_seen) {
    TS_NVML_ENTER(nvmlDeviceGetProcessUtilization, (device, samples, count, last_seen));
    nvmlReturn_t r = real.nvmlDeviceGetProcessUtilization(device, samples, count, last_seen);
    struct ts_card *card = count && samples && r == NVML_SUCCESS ? ts_nvml_card(device) : NULL;
    unsigned kept = 0;
    if (!card)
        return r;
    KEEP_OURS(card, samples, *count, kept);
    *count = kept;
    return kept ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t *info) {
    TS_NVML_ENTER(nvmlDeviceGetProcessesUtilizationInfo, (device, info));
    nvmlReturn_t r = real.nvmlDeviceGetProcessesUtilizationInfo(device, info);
    struct ts_card *card = r == NVML_SUCCESS && info->procUtilArray ? ts_nvml_card(device) : NULL;
    unsigned kept = 0;
    if (!card)
        return r;
    KEEP_OURS(card, info->procUtilArray, info->processSamplesCount, kept);
    info->processSamplesCount = kept;
    return kept ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

#define SESSIONS(symbol, info)                                                   \
    nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *count, info *infos) { \
        TS_NVML_ENTER(symbol, (device, count, infos));                           \
        nvmlReturn_t r = real.symbol(device, count, infos);                      \
        struct ts_card *card = r == NVML_SUCCESS ? ts_nvml_card(device) : NULL;  \
        unsigned kept = 0;                                                       \
        if (!card)                                                               \
            return r;                                                            \
        if (infos)                                                               \
            KEEP_OURS(card, infos, *count, kept);                                \
        *count = kept;                                                           \
        return r;                                                                \
    }
SESSIONS(nvmlDeviceGetEncoderSessions, nvmlEncoderSessionInfo_t)
SESSIONS(nvmlDeviceGetFBCSessions, nvmlFBCSessionInfo_t)

/* Sums over the card's sessions, of which nobody says whose they are. */
nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *sessions, unsigned int *fps, unsigned int *latency) {
    TS_NVML_ENTER(nvmlDeviceGetEncoderStats, (device, sessions, fps, latency));
    nvmlReturn_t r = real.nvmlDeviceGetEncoderStats(device, sessions, fps, latency);
    if (r == NVML_SUCCESS && ts_nvml_card(device))
        *sessions = *fps = *latency = 0;
    return r;
}

nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids) {
    TS_NVML_ENTER(nvmlDeviceGetAccountingPids, (device, count, pids));
    nvmlReturn_t r = real.nvmlDeviceGetAccountingPids(device, count, pids);
    struct ts_card *card = r == NVML_SUCCESS ? ts_nvml_card(device) : NULL;
    unsigned kept = 0;
    if (!card)
        return r;
    for (unsigned i = 0; pids && i < *count; i++)
        if (is_ours(card, pids[i]))
            pids[kept++] = pids[i];
    *count = kept;
    return r;
}

nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid, nvmlAccountingStats_t *stats) {
    TS_NVML_ENTER(nvmlDeviceGetAccountingStats, (device, pid, stats));
    struct ts_card *card = ts_nvml_card(device);
    if (card && !is_ours(card, pid))
        return NVML_ERROR_NOT_FOUND;
    return real.nvmlDeviceGetAccountingStats(device, pid, stats);
}

nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats) {
    TS_NVML_ENTER(nvmlDeviceGetAccountingStats_v2, (device, stats));
    struct ts_card *card = stats ? ts_nvml_card(device) : NULL;
    if (card && !is_ours(card, stats->pid))
        return NVML_ERROR_NOT_FOUND;
    return real.nvmlDeviceGetAccountingStats_v2(device, stats);
}

/* The name belongs to whoever has that number on the host. */
nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length) {
    TS_NVML_ENTER(nvmlSystemGetProcessName, (pid, name, length));
    return is_ours(NULL, pid) ? real.nvmlSystemGetProcessName(pid, name, length) : NVML_ERROR_NOT_FOUND;
}
