#include "guess.h"
#include "relaxed.h"

#include <string.h>

#define ENTRIES 4096u
#define PROBES 8u
#define SAMPLE_EVERY 256u
#define SAMPLE_NS 2000000u /* a function that took this much since is measured again */
#define FIRST 3u
#define STEADY 8 /* samples after which a mean means something */
#define STEP 8u
#define SLOWLY 32
#define STREAK 16u

static struct ts_guess table[ENTRIES];

static unsigned bits(unsigned n) {
    return n ? 32u - (unsigned)__builtin_clz(n) : 0;
}

/* The grid's size as a power of two: a sum of logarithms cannot overflow as the product does. */
uint64_t ts_guess_kernel(const void *function, unsigned x, unsigned y, unsigned z) {
    return ((uint64_t)(uintptr_t)function << 8) ^ (bits(x) + bits(y) + bits(z) + 1);
}

uint64_t ts_guess_graph(const void *exec) {
    return ((uint64_t)(uintptr_t)exec << 8) ^ 0xff;
}

static uint32_t home_of(uint64_t key) {
    key *= UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(key >> 40) & (ENTRIES - 1);
}

static struct ts_guess *begin(struct ts_guess *guess, uint64_t key) {
    ts_set(guess->samples, 0);
    ts_set(guess->since, 0);
    ts_set(guess->inflight, 0);
    ts_set(guess->slow, 0);
    ts_set(guess->mean_ns, 0);
    __atomic_store_n(&guess->key, key, __ATOMIC_RELEASE);
    return guess;
}

/* Threads may race for an entry: the loser's function is measured anew, no more. */
struct ts_guess *ts_guess_of(uint64_t key) {
    uint32_t home = home_of(key);
    for (uint32_t i = 0; i < PROBES; i++) {
        struct ts_guess *guess = &table[(home + i) & (ENTRIES - 1)];
        uint64_t theirs = __atomic_load_n(&guess->key, __ATOMIC_ACQUIRE);
        if (theirs == key)
            return guess;
        if (!theirs)
            return begin(guess, key);
    }
    return begin(&table[home], key);
}

int ts_guess_wants(struct ts_guess *guess) {
    uint64_t mean = ts_get(guess->mean_ns);
    uint32_t since = ts_get(guess->since) + 1;
    ts_set(guess->since, since);
    return ts_get(guess->samples) < FIRST || mean >= TS_LONG_NS || since >= SAMPLE_EVERY || since * mean >= SAMPLE_NS;
}

/* Where others take turns with this, what a short launch took is its own time and now and then theirs: the
 * short ones tell, unless there are none any more. */
static int64_t step_among_others(struct ts_guess *guess, int64_t mean, int64_t ns) {
    uint32_t slow = ns > mean + mean / 4 ? ts_get(guess->slow) + 1 : 0;
    ts_set(guess->slow, slow);
    if (ns <= mean)
        return (ns - mean) / 2;
    if (slow > STREAK)
        return (ns - mean) / STEADY;
    return (ns - mean < mean ? ns - mean : mean) / SLOWLY;
}

void ts_guess_learn(struct ts_guess *guess, uint64_t ns, int others) {
    uint32_t samples = ts_get(guess->samples);
    int64_t weight = samples < 8 ? (int64_t)samples + 1 : 8;
    int64_t mean = (int64_t)ts_get(guess->mean_ns), step = ((int64_t)ns - mean) / weight;
    if (others && samples >= FIRST && mean < TS_LONG_NS)
        step = step_among_others(guess, mean, (int64_t)ns);
    else if (others && samples >= (uint32_t)STEADY && ns > (uint64_t)mean * STEP)
        step = mean * (int64_t)(STEP - 1) / weight;
    mean += step;
    __atomic_store_n(&guess->mean_ns, (uint64_t)(mean > 0 ? mean : 0), __ATOMIC_RELAXED);
    if (samples < UINT32_MAX)
        __atomic_store_n(&guess->samples, samples + 1, __ATOMIC_RELEASE);
}

/* The entry may have become another function's meanwhile, of which nothing is in flight. */
void ts_guess_landed(struct ts_guess *guess) {
    uint32_t now = __atomic_load_n(&guess->inflight, __ATOMIC_RELAXED);
    while (now && !__atomic_compare_exchange_n(&guess->inflight, &now, now - 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

void ts_guess_forget(uint64_t key) {
    for (uint32_t i = 0; i < PROBES; i++) {
        struct ts_guess *guess = &table[(home_of(key) + i) & (ENTRIES - 1)];
        if (ts_get(guess->key) == key)
            ts_set(guess->samples, 0);
    }
}

void ts_guess_reset(void) {
    memset(table, 0, sizeof table);
}
