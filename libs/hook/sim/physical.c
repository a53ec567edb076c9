/* One physical memory per card: the sum of what processes hold for themselves and of the blocks they share. */
#include "state.h"

uint64_t sim_capacity(uint32_t card) { return sim->config.card[card].bytes - sim->config.card[card].reserved; }

void sim_sum_used(uint32_t card)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sim->procs_high; i++)
        if (sim->proc[i].live)
            sum += sim->proc[i].used[card];
    for (uint32_t i = 0; i < SIM_BLOCKS; i++)
        if (sim->block[i].live && sim->block[i].card == card)
            sum += sim->block[i].bytes;
    sim->card[card].used = sum;
}

bool sim_take(uint32_t card, uint64_t bytes)
{
    SimCard *c = &sim->card[card];
    uint64_t capacity = sim_capacity(card);
    sim_lock();
    if (bytes > capacity - c->used)
        sim_sweep();
    bool fits = bytes <= capacity - c->used;
    if (fits) {
        sim_kill_point();
        sim->proc[sim_process()].used[card] += bytes;
        sim_kill_point();
        c->used += bytes;
        sim_kill_point();
    }
    sim_unlock();
    return fits;
}

void sim_give(uint32_t card, uint64_t bytes)
{
    sim_lock();
    sim_kill_point();
    sim->proc[sim_process()].used[card] -= bytes;
    sim_kill_point();
    sim->card[card].used -= bytes;
    sim_unlock();
}

void sim_used(uint32_t card, uint64_t *used)
{
    sim_lock();
    sim_sweep_for_reader();
    *used = sim->card[card].used;
    for (uint32_t i = 0; i < sim->config.cards; i++)
        if (sim->config.card[i].parent == card) /* a card in MIG mode holds what its slices do */
            *used += sim->card[i].used;
    sim_unlock();
}
