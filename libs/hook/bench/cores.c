/* GPU time achieved against the limit, on the simulated machine's virtual clock: limits x kernels x
 * synchronous and asynchronous x processes x containers, with the second that is furthest out to either
 * side. The agent measures every half second, but for the cases that say "nobody measures". */
#include <string.h>

#include "tenants.h"

#define US 1000ull
#define MS 1000000ull

#define MANY 16 /* processes: each has few turns in the time in which one has many */
#define LONGER 4
#define TWO_LAUNCHES 480 /* seconds: each of sixteen processes has two launches of 20 ms on the card, so that a
                          * container may be 0.6 s of GPU time ahead, or behind, at either end of the second half */

/* Long enough for many launches of the longest, short enough for the shortest to end today. */
static uint64_t seconds_for(uint64_t kernel_ns, unsigned processes) {
    uint64_t seconds = kernel_ns < 50 * US    ? 6
                       : kernel_ns < MS       ? 12
                       : kernel_ns < 20 * MS  ? 16
                       : kernel_ns < 100 * MS ? 30
                       : kernel_ns < 500 * MS ? 80
                                              : 240;
    if (processes < MANY || kernel_ns >= 500 * MS)
        return seconds;
    seconds *= LONGER;
    return kernel_ns >= 20 * MS && seconds < TWO_LAUNCHES ? TWO_LAUNCHES : seconds;
}

static void measure(struct tenant *tenants, int count, unsigned processes, uint64_t kernel_ns, int async, int blind) {
    for (int i = 0; i < count; i++) {
        tenants[i].processes = processes;
        tenants[i].kernel_ns = kernel_ns;
        tenants[i].async = async;
    }
    tenants_run(tenants, count, seconds_for(kernel_ns, (unsigned)count * processes), blind);
    for (int i = 0; i < count; i++)
        printf("%2u %% %6llu us %-5s %d container%s of %u process%s%s mean %6.2f error %+.2f seconds %.1f..%.1f\n", tenants[i].cores,
               (unsigned long long)(kernel_ns / US), tenants[i].idle ? "idle" : async ? "async" : "sync", count,
               count > 1 ? "s" : "", processes, processes > 1 ? "es" : "", blind ? ", nobody measures," : "",
               tenants[i].share, tenants[i].share - (tenants[i].idle ? 0 : tenants[i].cores), tenants[i].low, tenants[i].high);
}

/* Names say what they are, so that a part of one chooses: c<containers>_p<processes>_<limits>_<kernel>_<how>. */
#define CASE(containers, count, processes, participants, name, ns, how, async, blind, ...)                        \
    TEST(containers##_p##processes##_##name##_##how, NULL, "clock=virtual participants=" #participants) {         \
        struct tenant t[] = {__VA_ARGS__};                                                                        \
        measure(t, count, processes, ns, async, blind);                                                           \
    }
#define BOTH(containers, count, processes, participants, name, ns, ...)                                \
    CASE(containers, count, processes, participants, name, ns, sync, 0, 0, __VA_ARGS__)                \
    CASE(containers, count, processes, participants, name, ns, async, 1, 0, __VA_ARGS__)
#define KERNELS(containers, count, processes, participants, limits, ...)                               \
    BOTH(containers, count, processes, participants, limits##_5us, 5 * US, __VA_ARGS__)                \
    BOTH(containers, count, processes, participants, limits##_50us, 50 * US, __VA_ARGS__)              \
    BOTH(containers, count, processes, participants, limits##_1ms, MS, __VA_ARGS__)                    \
    BOTH(containers, count, processes, participants, limits##_20ms, 20 * MS, __VA_ARGS__)              \
    BOTH(containers, count, processes, participants, limits##_100ms, 100 * MS, __VA_ARGS__)            \
    BOTH(containers, count, processes, participants, limits##_500ms, 500 * MS, __VA_ARGS__)
#define ALONE(limit)                              \
    KERNELS(c1, 1, 1, 2, limit, {.cores = limit}) \
    KERNELS(c1, 1, 2, 3, limit, {.cores = limit}) \
    KERNELS(c1, 1, 4, 5, limit, {.cores = limit})
ALONE(10) ALONE(25) ALONE(30) ALONE(50) ALONE(75) ALONE(90)

#define TWO(name, a, b)                                         \
    KERNELS(c2, 2, 1, 3, name, {.cores = a}, {.cores = b})      \
    KERNELS(c2, 2, 2, 5, name, {.cores = a}, {.cores = b})      \
    KERNELS(c2, 2, 4, 9, name, {.cores = a}, {.cores = b})
TWO(50_50, 50, 50) TWO(30_70, 30, 70)

#define QUARTER {.cores = 25}
KERNELS(c4, 4, 1, 5, 25_each, QUARTER, QUARTER, QUARTER, QUARTER)
KERNELS(c4, 4, 2, 9, 25_each, QUARTER, QUARTER, QUARTER, QUARTER)
KERNELS(c4, 4, 4, 17, 25_each, QUARTER, QUARTER, QUARTER, QUARTER)
KERNELS(c4, 4, 1, 5, one_idle, QUARTER, QUARTER, QUARTER, {.cores = 25, .idle = 1})

/* An event pair that a time slice ends includes the others' slices: what the agent's measurement is for. */
CASE(c1, 1, 4, 5, 50_50us_blind, 50 * US, async, 1, 1, {.cores = 50})
CASE(c1, 1, 4, 5, 50_5ms_blind, 5 * MS, async, 1, 1, {.cores = 50})
