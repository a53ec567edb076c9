/* NVML: processes on a card. The unversioned list is the 16-byte v1 ABI, _v2 and _v3 the 24-byte one. */
#include "nvml_local.h"

typedef struct {
    uint32_t pid, instance;
    uint64_t bytes;
} Found;

static uint32_t on_hardware(uint32_t card, Found found[SIM_PROCS], uint32_t n) /* lock held */
{
    bool has[SIM_PROCS] = {false};
    uint64_t shared[SIM_PROCS + 1] = {0}; /* shared memory shows with one holder; the last one is nobody */
    for (uint32_t i = 0; i < SIM_BLOCKS; i++)
        if (sim->block[i].live && sim->block[i].card == card) {
            uint32_t holder = sim_block_holder(&sim->block[i]);
            shared[holder < SIM_PROCS ? holder : SIM_PROCS] += sim->block[i].bytes;
        }
    for (uint32_t i = 0; i < SIM_CONTEXTS; i++)
        if (sim->context[i].live && sim->context[i].card == card)
            has[sim->context[i].proc] = true;
    for (uint32_t i = 0; i < sim->procs_high && n < SIM_PROCS; i++) {
        if (!sim->proc[i].live || !has[i])
            continue;
        found[n].instance = sim->config.card[card].parent == SIM_NONE ? NVML_NO_INSTANCE : sim->config.card[card].slice + 1;
        found[n].pid = sim_pid_seen(i);
        if (!found[n].pid)
            continue; /* of a container that is not ours to see */
        found[n].bytes = sim->proc[i].used[card] + shared[i];
        n++;
    }
    return n;
}

static uint32_t on_card(uint32_t card, Found found[SIM_PROCS])
{
    sim_lock();
    sim_sweep_for_reader();
    uint32_t n = on_hardware(card, found, 0);
    for (uint32_t i = 0; i < sim->config.cards; i++)
        if (sim->config.card[i].parent == card)
            n = on_hardware(i, found, n);
    sim_unlock();
    return n;
}

enum { COMPUTE, GRAPHICS, MPS };

/* The clients of MPS are in a list of their own. */
static uint32_t of_kind(uint32_t card, int kind, Found found[SIM_PROCS]) { return kind == (sim->config.mps ? MPS : COMPUTE) ? on_card(card, found) : 0; }

static nvmlReturn_t list(nvmlDevice_t device, unsigned *count, void *infos, bool v1, int kind)
{
    Found found[SIM_PROCS];
    CARD(device, count);
    uint32_t n = of_kind(index, kind, found);
    if (*count && !infos)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (*count < n) {
        *count = n;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (v1)
            ((nvmlProcessInfo_v1_t *)infos)[i] = (nvmlProcessInfo_v1_t){found[i].pid, found[i].bytes};
        else
            ((nvmlProcessInfo_v2_t *)infos)[i] = (nvmlProcessInfo_v2_t){found[i].pid, found[i].bytes, found[i].instance, found[i].instance == NVML_NO_INSTANCE ? NVML_NO_INSTANCE : 0};
    }
    *count = n;
    return NVML_SUCCESS;
}

#define LISTS(name, kind)                                                                                                                                         \
    nvmlReturn_t nvmlDeviceGet##name##RunningProcesses(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_v1_t *infos) { return list(d, n, infos, true, kind); }     \
    nvmlReturn_t nvmlDeviceGet##name##RunningProcesses_v2(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_v2_t *infos) { return list(d, n, infos, false, kind); } \
    nvmlReturn_t nvmlDeviceGet##name##RunningProcesses_v3(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos) { return list(d, n, infos, false, kind); }
LISTS(Compute, COMPUTE)
LISTS(Graphics, GRAPHICS)
LISTS(MPSCompute, MPS)

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *out)
{
    Found found[SIM_PROCS];
    CARD(device, out);
    if (out->version != NVML_PROCESS_DETAIL_LIST_V1_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (out->mode > MPS)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint32_t n = of_kind(index, (int)out->mode, found), room = out->procArray ? out->numProcArrayEntries : 0;
    out->numProcArrayEntries = n;
    if (room < n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (uint32_t i = 0; i < n; i++)
        out->procArray[i] = (nvmlProcessDetail_v1_t){found[i].pid, found[i].bytes, found[i].instance, found[i].instance == NVML_NO_INSTANCE ? NVML_NO_INSTANCE : 0, 0};
    return NVML_SUCCESS;
}

