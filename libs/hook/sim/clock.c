/* The machine's time: real, scaled, or virtual (moved only by those who wait, wait.c). */
#include "state.h"

#include <time.h>

uint64_t sim_now(void)
{
    struct timespec t;
    if (sim->config.clock == SIM_CLOCK_VIRTUAL)
        return sim->virtual_now;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - sim->origin_ns;
    return sim->config.clock == SIM_CLOCK_SCALED ? ns * sim->config.scale : ns;
}

void sim_advance_virtual(uint64_t until)
{
    for (uint32_t i = 0; i < sim->config.cards; i++)
        sim_advance(i, until);
    if (until > sim->virtual_now)
        sim->virtual_now = until;
}
