/* Several containers on one card, time-sliced, with an agent that measures each. */
#ifndef TESSERA_TESTS_TENANTS_H
#define TESSERA_TESTS_TENANTS_H

#include "harness.h"

#define TENANTS 4

struct tenant {
    uint32_t cores, idle; /* percent; idle: launches nothing */
    uint64_t kernel_ns;
    pid_t pid;
    double share; /* what it got, in percent of the card */
};

/* The machine must be virtual, with as many participants as tenants and one more: the agent. */
void tenants_run(struct tenant *tenants, int count, uint64_t seconds);

#endif
