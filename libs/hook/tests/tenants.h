/* Containers that share a card, and the agent that measures them, as the real one does with NVML. */
#ifndef TESSERA_TESTS_TENANTS_H
#define TESSERA_TESTS_TENANTS_H

#include "harness.h"

#define TENANTS 4
#define PROCESSES 4 /* of one of them */

struct tenant {
    unsigned cores, processes; /* percent; 0 processes: one */
    uint64_t kernel_ns;
    int idle, async;
    unsigned mib, resident_mib; /* memory that each process takes, and how much of it may lie on the card; 0: all */
    unsigned away; /* seconds before the second half in which no agent measures; the next one leaps */
    int rest; /* best effort: it has what is lent to it and nothing else */
    unsigned lent; /* permille */
    unsigned from_ms, until_ms; /* it works in this time only, since all began; 0: without end */
    /* results: percent of the card over the second half of the time, and the seconds of it furthest out */
    double share, low, high;
    pid_t pid[PROCESSES];
};

/* The machine's clock must be virtual, with as many participants as processes and one for the agent.
 * `blind`: nobody measures. */
void tenants_run(struct tenant *tenants, int count, uint64_t seconds, int blind);

/* What it consists of, for an agent that a case brings itself. */
void tenants_start(struct tenant *tenants, int count, uint64_t seconds);
void tenants_end(const struct tenant *tenants, int count);
uint64_t tenant_busy(const struct tenant *tenant);
struct tessera_card_usage tenant_usage(int i);
/* `measured`: what it was busy for until now; 0: it is not measured. */
void tenant_limits(int i, const struct tenant *tenant, uint64_t measured);

#endif
