/* How long will it run? One moving average for each function and size of grid, or graph. */
#ifndef TESSERA_SRC_GUESS_H
#define TESSERA_SRC_GUESS_H

#include <stdint.h>

#include "relaxed.h"

struct ts_guess {
    uint64_t key;
    uint64_t mean_ns;
    uint32_t samples;  /* measured so far */
    uint32_t since;    /* launches since the last measured one */
    uint32_t inflight; /* being measured now */
    uint32_t slow;     /* samples in a row that took longer than the mean */
};

#define TS_UNKNOWN_NS 20000u /* what is debited for a function never measured */
#define TS_LONG_NS 200000u   /* from here on every launch is measured */

uint64_t ts_guess_kernel(const void *function, unsigned x, unsigned y, unsigned z); /* its key */
static inline const void *ts_guess_function(uint64_t key) { /* what the key was made of */
    return (const void *)(uintptr_t)(key >> 8);
}
uint64_t ts_guess_graph(const void *exec);
struct ts_guess *ts_guess_of(uint64_t key);
int ts_guess_wants(struct ts_guess *guess); /* should this launch be measured? counts it */
/* others: they take slices of the card while this runs, and somebody else measures, too. Then the mean of
 * short launches is of those into which no slice fell, and one that took far longer moves any by little. */
void ts_guess_learn(struct ts_guess *guess, uint64_t ns, int others);
void ts_guess_landed(struct ts_guess *guess); /* one of those in flight has come back */
void ts_guess_forget(uint64_t key);
void ts_guess_reset(void);

static inline uint64_t ts_guess_ns(const struct ts_guess *guess) {
    return ts_get(guess->samples) ? ts_get(guess->mean_ns) : TS_UNKNOWN_NS;
}

static inline int ts_guess_is_new(const struct ts_guess *guess) {
    return !ts_get(guess->samples) && !ts_get(guess->inflight);
}

/* Its first launch has not come back yet. */
static inline int ts_guess_is_awaited(const struct ts_guess *guess) {
    return !ts_get(guess->samples) && ts_get(guess->inflight);
}

#endif
