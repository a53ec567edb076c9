/* Utilisation as NVML sees it: in every sample period, the share of time in which the card, and each process on it, had a kernel, in
 * whole percents. With bias=1 a process counts while a kernel of it waits for its turn, too: the sum over processes is then more than
 * the card's own (as real cards are said to do it; not measured). */
#include "state.h"

static void close_period(uint32_t index)
{
    SimCard *card = &sim->card[index];
    uint64_t period = sim->config.sample_ns;
    for (uint32_t i = 0; i < sim->procs_high; i++) {
        SimProc *p = &sim->proc[i];
        if (!p->live || p->sample_busy[index] == 0)
            continue;
        SimSample *s = &card->sample[card->sample_at++ % SIM_SAMPLES];
        s->time_us = sim->origin_us + card->sample_end / 1000;
        s->proc = i;
        s->pid = p->pid;
        s->percent = (uint32_t)((p->sample_busy[index] * 100 + period / 2) / period);
        p->sample_busy[index] = 0;
    }
    card->last_percent = (uint32_t)((card->sample_busy * 100 + period / 2) / period);
    card->sample_busy = 0;
    card->sample_end += period;
}

void sim_account(uint32_t index, const SimBusy *busy, uint64_t from, uint64_t until)
{
    SimCard *card = &sim->card[index];
    while (from < until) {
        uint64_t end = until < card->sample_end ? until : card->sample_end;
        if (busy) {
            card->busy_ns += end - from;
            card->sample_busy += end - from;
            for (uint32_t i = 0; i < busy->running; i++)
                sim->proc[busy->runs[i]].busy_ns[index] += end - from;
            uint32_t seen = sim->config.bias ? busy->resident : busy->running;
            for (uint32_t i = 0; i < seen; i++)
                sim->proc[(sim->config.bias ? busy->here : busy->runs)[i]].sample_busy[index] += end - from;
        } else if (card->sample_busy == 0 && until > card->sample_end) { /* long idleness needs no period after period */
            uint64_t whole = (until - card->sample_end) / sim->config.sample_ns;
            card->last_percent = 0;
            card->sample_end += (whole + 1) * sim->config.sample_ns;
            return;
        }
        from = end;
        if (end == card->sample_end)
            close_period(index);
    }
}
