#include "lease.h"

#include <stdlib.h>

#include "bucket.h"
#include "clock.h"
#include "lock.h"
#include "real.h"
#include "relaxed.h"
#include "slots.h"
#include "spans.h"
#include "start.h"
#include "usage_map.h"

#define AWAY_NS (4 * TS_MS) /* whoever has a turn and does not launch loses it */
#define MOST_CLEAR_NS (2 * TS_S) /* and no longer: what runs there may be waiting for this launch */
#define MOST_AWAY_NS (MOST_CLEAR_NS + 100 * TS_MS)
#define MOST_DEFICIT_NS ((int64_t)(10 * TS_S))
#define LATE_OF 10 /* of the longest launch, where a clock does not wake */
#define SHORT_OF 2 /* the container is short of time while its bucket is not half full */
#define MPS_ENABLED ((CUdevice_attribute)133)

/* Newer drivers say so; and whoever is told of a pipe of its own is a client of MPS. */
static int under_mps(const struct ts_card *card) {
    int value = 0;
    return getenv("CUDA_MPS_PIPE_DIRECTORY") != NULL ||
           (card->ordinal >= 0 && real.cuDeviceGetAttribute &&
            real.cuDeviceGetAttribute(&value, MPS_ENABLED, card->ordinal) == CUDA_SUCCESS && value);
}

/* Who looks for dead processes counts the living (slots.c). */
void ts_lease_look(struct ts_card *card) {
    uint32_t rate = ts_get(card->rate_permille), known = ts_get(card->brothers), brothers = 0;
    ts_set(card->lease_below_ns, ts_bucket_cap(rate) / SHORT_OF);
    if (rate < 1000 && card->slot >= 0)
        brothers = ts_get(card->shared->processes);
    brothers -= brothers > 0; /* ourselves */
    if (brothers != known)
        ts_set(card->brothers, brothers && !known && under_mps(card) ? 0 : brothers);
}

/* Debited, launched, and not known to have run. */
static uint64_t under_way(const struct tessera_slot *slot) {
    int64_t ns = __atomic_load_n(&slot->outstanding_ns, __ATOMIC_RELAXED) -
                 __atomic_load_n(&slot->throttled_outstanding_ns, __ATOMIC_RELAXED);
    return ns <= 0 ? 0 : ns < (int64_t)MOST_CLEAR_NS ? (uint64_t)ns : MOST_CLEAR_NS;
}

static uint64_t rounds_of(const struct tessera_slot *slot) {
    int64_t deficit = __atomic_load_n(&slot->deficit_ns, __ATOMIC_RELAXED);
    return deficit >= 0 ? 0 : 1 + (uint64_t)(-(deficit + 1)) / TS_TURN_NS;
}

static int waits(const struct tessera_slot *slot, const struct ts_card *card) {
    return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == TESSERA_SLOT_LIVE && slot->card == card->index &&
           __atomic_load_n(&slot->waits, __ATOMIC_RELAXED);
}

static void credit(struct tessera_slot *slot, uint64_t rounds) {
    __atomic_add_fetch(&slot->deficit_ns, (int64_t)rounds * TS_TURN_NS, __ATOMIC_RELAXED);
}

/* Deficit round robin: of those that wait, in their order, whoever has a turn to its credit. Who launched
 * something long has none for as many rounds; each time that it is passed over counts as one. */
static uint32_t choose(const struct ts_card *card, uint32_t last) {
    struct tessera_slot *slot = ts_usage()->slot;
    uint32_t high = ts_slots_high(), found = TESSERA_SLOTS;
    uint64_t least = UINT64_MAX;
    for (uint32_t n = 1; n <= high; n++) {
        uint32_t i = (last + n) % high;
        if (!waits(&slot[i], card))
            continue;
        uint64_t rounds = rounds_of(&slot[i]);
        if (!rounds)
            return i;
        credit(&slot[i], 1);
        if (rounds - 1 < least) {
            least = rounds - 1;
            found = i;
        }
    }
    for (uint32_t i = 0; found < TESSERA_SLOTS && least && i < high; i++) /* nobody has: as many rounds at once */
        if (waits(&slot[i], card))
            credit(&slot[i], least);
    return found;
}

/* What it took beyond its turn, it has not got in the next ones. What is under way, others wait for. */
static uint64_t leave(struct tessera_slot *slot) {
    int64_t over = __atomic_exchange_n(&slot->turn_ns, 0, __ATOMIC_RELAXED) - TS_TURN_NS;
    if (over > 0)
        __atomic_sub_fetch(&slot->deficit_ns, over < MOST_DEFICIT_NS ? over : MOST_DEFICIT_NS, __ATOMIC_RELAXED);
    return under_way(slot);
}

/* A turn is over, or nobody has it. Whoever dies in the middle of this leaves a turn that ends. */
static void pass_on(struct ts_card *card, uint32_t word, uint64_t now) {
    struct tessera_card_usage *shared = card->shared;
    uint32_t last = word && word <= ts_slots_high() ? word - 1 : 0;
    uint64_t busy = word && word <= ts_slots_high() ? leave(&ts_usage()->slot[last]) : 0;
    uint32_t next = choose(card, last);
    if (next == TESSERA_SLOTS)
        return;
    if (next == last)
        busy = 0;
    __atomic_store_n(&shared->lease_clear_ns, now + busy, __ATOMIC_RELAXED);
    __atomic_store_n(&shared->lease_until_ns, now + busy + AWAY_NS, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&shared->lease, &word, next + 1, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ts_futex_wake(&shared->lease, 1, INT32_MAX);
}

static uint32_t holder(const struct ts_card *card) {
    return __atomic_load_n(&card->shared->lease, __ATOMIC_ACQUIRE);
}

static void wait_for_turn(struct ts_card *card) {
    struct tessera_card_usage *shared = card->shared;
    while (ts_get(card->brothers) && ts_lease_is_short(card) &&
           (!ts_lease_is_ours(card) || __atomic_load_n(&card->mine->turn_ns, __ATOMIC_RELAXED) >= TS_TURN_NS)) {
        uint32_t word = holder(card);
        uint64_t now = ts_now(), until = __atomic_load_n(&shared->lease_until_ns, __ATOMIC_RELAXED);
        if (!word || ts_lease_is_ours(card) || now >= until || until - now > MOST_AWAY_NS) {
            pass_on(card, word, now);
            continue;
        }
        uint64_t late = __atomic_load_n(&shared->longest_ns, __ATOMIC_RELAXED) / LATE_OF;
        ts_clock_wait(&shared->lease, word, until - now < AWAY_NS ? until - now : AWAY_NS, late);
        ts_spans_poll();
        ts_tick();
        ts_bucket_fill(shared, ts_get(card->rate_permille), ts_now());
    }
}

static void wait_until_clear(const struct ts_card *card) {
    while (ts_lease_is_ours(card)) {
        uint64_t now = ts_now(), clear = __atomic_load_n(&card->shared->lease_clear_ns, __ATOMIC_RELAXED);
        if (now >= clear || clear - now > MOST_CLEAR_NS)
            break;
        ts_sleep(clear - now < AWAY_NS ? clear - now : AWAY_NS);
        ts_tick();
    }
}

void ts_lease_wait(struct ts_card *card) {
    uint64_t since = ts_now();
    __atomic_add_fetch(&card->mine->waits, 1, __ATOMIC_RELAXED); /* of each thread */
    wait_for_turn(card);
    __atomic_sub_fetch(&card->mine->waits, 1, __ATOMIC_RELAXED);
    wait_until_clear(card);
    uint64_t waited = ts_now() - since;
    __atomic_add_fetch(&card->shared->throttled_ns, waited, __ATOMIC_RELAXED);
    __atomic_add_fetch(&card->mine->throttled_ns, waited, __ATOMIC_RELAXED);
}

void ts_lease_keep(struct ts_card *card, uint64_t wall_ns) {
    if (ts_get(card->brothers) && ts_lease_is_ours(card))
        __atomic_store_n(&card->shared->lease_until_ns, ts_now() + wall_ns + AWAY_NS, __ATOMIC_RELAXED);
}
