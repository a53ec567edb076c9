/* NVML: how busy each process keeps a card, in samples and over its life. Silent about slices, and about the clients of MPS (as some
 * drivers are; assumed of all). */
#include "nvml_local.h"

#include <string.h>

static bool there(const SimSample *s) { return sim->proc[s->proc].live && sim->proc[s->proc].pid == s->pid; }

/* The latest sample of every process after last_seen. */
static uint32_t latest_of(uint32_t card, uint64_t last_seen, const SimSample *latest[SIM_PROCS]) /* lock held */
{
    const SimCard *c = &sim->card[card];
    uint32_t n = 0;
    for (uint32_t back = 1; back <= SIM_SAMPLES && back <= c->sample_at && !sim->config.mps; back++) {
        const SimSample *s = &c->sample[(c->sample_at - back) % SIM_SAMPLES];
        bool known = s->time_us <= last_seen;
        for (uint32_t i = 0; i < n && !known; i++)
            known = latest[i]->proc == s->proc && latest[i]->pid == s->pid;
        if (!known && there(s) && !sim_pid_seen(s->proc))
            continue;
        if (!known && n < SIM_PROCS)
            latest[n++] = s;
    }
    return n;
}

static uint32_t pid_of(const SimSample *s) { return there(s) ? sim_pid_seen(s->proc) : s->pid; }

/* None at all is NOT_FOUND, as from the real library. */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned int *count, unsigned long long last_seen)
{
    const SimSample *latest[SIM_PROCS];
    CARD(device, count);
    if (card->mig || card->parent != SIM_NONE)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!samples) {
        *count = SIM_PROCS;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    sim_lock();
    sim_sweep_for_reader();
    sim_catch_up(index);
    uint32_t n = latest_of(index, last_seen, latest);
    nvmlReturn_t r = n > *count ? NVML_ERROR_INSUFFICIENT_SIZE : n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
    for (uint32_t i = 0; i < n && !r; i++) {
        memset(&samples[i], 0, sizeof samples[i]);
        samples[i].pid = pid_of(latest[i]);
        samples[i].timeStamp = latest[i]->time_us;
        samples[i].smUtil = latest[i]->percent;
        samples[i].memUtil = latest[i]->percent / 2;
    }
    sim_unlock();
    *count = n;
    return r;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t *info)
{
    const SimSample *latest[SIM_PROCS];
    CARD(device, info);
    if (card->mig || card->parent != SIM_NONE)
        return NVML_ERROR_NOT_SUPPORTED;
    if (info->version != NVML_PROCESSES_UTILIZATION_V1_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!info->procUtilArray) {
        info->processSamplesCount = SIM_PROCS;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    sim_lock();
    sim_sweep_for_reader();
    sim_catch_up(index);
    uint32_t n = latest_of(index, info->lastSeenTimeStamp, latest);
    nvmlReturn_t r = n > info->processSamplesCount ? NVML_ERROR_INSUFFICIENT_SIZE : n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
    for (uint32_t i = 0; i < n && !r; i++)
        info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){.timeStamp = latest[i]->time_us, .pid = pid_of(latest[i]), .smUtil = latest[i]->percent, .memUtil = latest[i]->percent / 2};
    sim_unlock();
    info->processSamplesCount = n;
    return r;
}

/* The card's own samples of its utilisation: only the last one is kept. */
nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, int type, unsigned long long last_seen, int *value_type, unsigned int *count, nvmlSample_t *samples)
{
    CARD(device, value_type && count);
    if (card->mig || card->parent != SIM_NONE || (type != 1 && type != 2)) /* of the SMs and of the memory */
        return NVML_ERROR_NOT_SUPPORTED;
    *value_type = 1; /* unsigned int */
    if (!samples) {
        *count = 1;
        return NVML_SUCCESS;
    }
    if (*count < 1)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    sim_lock();
    sim_catch_up(index);
    uint64_t at = sim->origin_us + (sim->card[index].sample_end - sim->config.sample_ns) / 1000;
    *count = at > last_seen;
    samples[0] = (nvmlSample_t){.timeStamp = at, .sampleValue = type == 1 ? sim->card[index].last_percent : sim->card[index].last_percent / 2};
    sim_unlock();
    return *count ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    CARD(device, mode);
    *mode = sim->config.accounting ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAccountingBufferSize(nvmlDevice_t device, unsigned int *size)
{
    CARD(device, size);
    *size = SIM_PROCS;
    return NVML_SUCCESS;
}

static bool worked(const SimProc *p, uint32_t card) { return p->live && (p->used[card] || p->busy_ns[card]); }

/* Of living processes only (the real list keeps the dead until it is full). */
nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids)
{
    uint32_t n = 0, room;
    CARD(device, count);
    if (!sim->config.accounting)
        return NVML_ERROR_NOT_SUPPORTED;
    room = pids ? *count : 0;
    sim_lock();
    sim_sweep_for_reader();
    for (uint32_t i = 0; i < sim->procs_high; i++) {
        uint32_t pid = worked(&sim->proc[i], index) ? sim_pid_seen(i) : 0;
        if (pid && n < room)
            pids[n] = pid;
        n += pid != 0;
    }
    sim_unlock();
    *count = n;
    return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid, nvmlAccountingStats_t *stats)
{
    nvmlReturn_t r = NVML_ERROR_NOT_FOUND;
    CARD(device, stats);
    if (!sim->config.accounting)
        return NVML_ERROR_NOT_SUPPORTED;
    sim_lock();
    sim_sweep_for_reader();
    sim_catch_up(index);
    for (uint32_t i = 0; i < sim->procs_high && r; i++) {
        const SimProc *p = &sim->proc[i];
        if (!worked(p, index) || sim_pid_seen(i) != pid)
            continue;
        uint64_t lived = sim->card[index].now;
        *stats = (nvmlAccountingStats_t){.gpuUtilization = lived ? (unsigned)(p->busy_ns[index] * 100 / lived) : 0, .maxMemoryUsage = p->used[index],
                                         .time = lived / 1000000, .startTime = sim->origin_us, .isRunning = 1};
        r = NVML_SUCCESS;
    }
    sim_unlock();
    return r;
}

nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats)
{
    nvmlAccountingStats_t first;
    CARD(device, stats);
    nvmlReturn_t r = nvmlDeviceGetAccountingStats(device, stats->pid, &first);
    if (!r)
        *stats = (nvmlAccountingStats_v2_t){.pid = stats->pid, .isRunning = first.isRunning, .gpuUtilization = first.gpuUtilization,
                                            .maxMemoryUsage = first.maxMemoryUsage, .time = first.time, .startTime = first.startTime};
    return r;
}
