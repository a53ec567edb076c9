/* NVML: processes on a card, and how busy each keeps it. The unversioned list is the 16-byte v1 ABI, _v2 and _v3 the 24-byte one. */
#include "nvml_local.h"

#include <string.h>

typedef struct {
    uint32_t pid;
    uint64_t bytes;
} Found;

static uint32_t on_card(uint32_t card, Found found[SIM_PROCS])
{
    bool has[SIM_PROCS] = {false};
    uint32_t n = 0;
    sim_lock();
    sim_sweep();
    for (uint32_t i = 0; i < SIM_CONTEXTS; i++)
        if (sim->context[i].live && sim->context[i].card == card)
            has[sim->context[i].proc] = true;
    for (uint32_t i = 0; i < sim->procs_high; i++) {
        if (!sim->proc[i].live || !has[i])
            continue;
        found[n].pid = sim_pid_seen(i);
        if (!found[n].pid)
            continue; /* of a container that is not ours to see */
        found[n].bytes = sim->proc[i].used[card];
        for (uint32_t b = 0; b < SIM_BLOCKS; b++)
            if (sim->block[b].live && sim->block[b].card == card && sim_block_holder(&sim->block[b]) == i)
                found[n].bytes += sim->block[b].bytes; /* shared memory shows with one holder */
        n++;
    }
    sim_unlock();
    return n;
}

static nvmlReturn_t list(nvmlDevice_t device, unsigned *count, void *infos, bool v1, bool compute)
{
    Found found[SIM_PROCS];
    CARD(device, count);
    uint32_t n = compute ? on_card(index, found) : 0;
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
            ((nvmlProcessInfo_v2_t *)infos)[i] = (nvmlProcessInfo_v2_t){found[i].pid, found[i].bytes, NVML_NO_INSTANCE, NVML_NO_INSTANCE};
    }
    *count = n;
    return NVML_SUCCESS;
}

#define LISTS(kind, compute)                                                                                                                                          \
    nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_v1_t *infos) { return list(d, n, infos, true, compute); }     \
    nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses_v2(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_v2_t *infos) { return list(d, n, infos, false, compute); } \
    nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses_v3(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos) { return list(d, n, infos, false, compute); }
LISTS(Compute, true)
LISTS(Graphics, false)
LISTS(MPSCompute, false)

static bool there(const SimSample *s) { return sim->proc[s->proc].live && sim->proc[s->proc].pid == s->pid; }

/* The latest sample of every process after last_seen; none at all is NOT_FOUND, as from the real library. */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned int *count, unsigned long long last_seen)
{
    const SimSample *latest[SIM_PROCS];
    uint32_t n = 0;
    CARD(device, count);
    if (!samples) {
        *count = SIM_PROCS;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    nvmlReturn_t r = NVML_SUCCESS;
    sim_lock();
    sim_sweep();
    sim_catch_up(index);
    const SimCard *c = &sim->card[index];
    for (uint32_t back = 1; back <= SIM_SAMPLES && back <= c->sample_at; back++) {
        const SimSample *s = &c->sample[(c->sample_at - back) % SIM_SAMPLES];
        bool known = s->time_us <= last_seen;
        for (uint32_t i = 0; i < n && !known; i++)
            known = latest[i]->proc == s->proc && latest[i]->pid == s->pid;
        if (!known && there(s) && !sim_pid_seen(s->proc))
            continue;
        if (!known && n < SIM_PROCS)
            latest[n++] = s;
    }
    if (n > *count)
        r = NVML_ERROR_INSUFFICIENT_SIZE;
    for (uint32_t i = 0; i < n && !r; i++) {
        memset(&samples[i], 0, sizeof samples[i]);
        samples[i].pid = there(latest[i]) ? sim_pid_seen(latest[i]->proc) : latest[i]->pid;
        samples[i].timeStamp = latest[i]->time_us;
        samples[i].smUtil = latest[i]->percent;
        samples[i].memUtil = latest[i]->percent / 2;
    }
    sim_unlock();
    *count = n;
    return r ? r : n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
