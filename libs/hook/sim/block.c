/* Physical memory that more than one process can hold: made when memory is exported, gone with its last reference. */
#include "state.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void sim_block_path(uint32_t block, char *path, size_t size) { snprintf(path, size, "%s.block%u", sim_state_path(), block); }

uint32_t sim_block_holder(const SimBlock *block)
{
    if (sim->proc[block->creator].live && block->references[block->creator])
        return block->creator;
    for (uint32_t i = 0; i < sim->procs_high; i++)
        if (sim->proc[i].live && block->references[i])
            return i;
    return SIM_NONE;
}

uint32_t sim_block_share(uint32_t card, uint64_t bytes, uint64_t *generation)
{
    uint32_t found = SIM_NONE;
    sim_lock();
    for (uint32_t i = 0; i < SIM_BLOCKS && found == SIM_NONE; i++)
        if (!sim->block[i].live)
            found = i;
    if (found != SIM_NONE) {
        SimBlock *b = &sim->block[found];
        uint32_t me = sim_process();
        char path[4200];
        sim_block_path(found, path, sizeof path);
        unlink(path); /* contents of an earlier block of this number */
        memset(b, 0, sizeof *b);
        b->card = card;
        b->bytes = bytes;
        b->creator = me;
        b->generation = *generation = ++sim->generation;
        b->references[me] = 1;
        sim_kill_point();
        b->live = 1; /* from here the bytes are the block's ... */
        sim_kill_point();
        sim->proc[me].used[card] -= bytes; /* ... and no longer the process's; a kill between the two ends the process anyway */
    }
    sim_unlock();
    return found;
}

bool sim_block_hold(uint32_t block, uint64_t generation, uint32_t *card, uint64_t *bytes)
{
    bool held = false;
    if (block >= SIM_BLOCKS)
        return false;
    sim_lock();
    sim_sweep();
    SimBlock *b = &sim->block[block];
    if (b->live && b->generation == generation && sim_block_holder(b) != SIM_NONE) {
        b->references[sim_process()]++;
        *card = b->card;
        *bytes = b->bytes;
        held = true;
    }
    sim_unlock();
    return held;
}

void sim_block_drop(uint32_t block)
{
    char path[4200];
    sim_lock();
    SimBlock *b = &sim->block[block];
    if (b->live && b->references[sim_process()] && --b->references[sim_process()] == 0 && sim_block_holder(b) == SIM_NONE) {
        sim_kill_point();
        b->live = 0;
        sim_sum_used(b->card);
        sim_block_path(block, path, sizeof path);
        unlink(path);
    }
    sim_unlock();
}
