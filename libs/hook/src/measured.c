/* Event times include other tenants' time slices; the agent's measurement does not. Two things follow
 * from it. The gain: debits are multiplied by the share of our event times that was really this
 * container's. And the balance: what was debited in all is brought towards what was measured in all,
 * so that no error of predictions or of the gain lasts, however small. The replay: a second bucket that is
 * debited what was measured, and nothing else, bounds the one in use. So no error grows, either. */
#include "measured.h"

#include "bucket.h"
#include "clock.h"
#include "relaxed.h"
#include "slots.h"
#include "spans.h"
#include "usage_map.h"

#define WINDOW_NS (10 * TS_MS) /* of our time: less is noise */
#define WINDOW_LAUNCHES 8      /* of the longest: one that is under way is counted by one side only */
#define WINDOW_AGE (60 * TS_S) /* however little there was, by then it is old */
#define LONGEST (10 * TS_S)
#define ABSURD (1000 * TS_S) /* between two measurements: something ran backwards */
#define APART ((int64_t)(20 * TS_S)) /* balances further apart than this were never of one time */
/* Of what is out of balance, at each measurement: launches under way go in and out of it. */
#define COARSE (20 * TS_MS)
#define PART_OF_COARSE 8
#define PART_OF_FINE 2
#define LEAST_GAIN 16 /* permille */
#define MOST_GAIN 8000
#define MEMORY (4 * TS_S) /* the gain is that of so much time, the older the less */
#define AGENT_IS_AWAY (30 * TS_S)
#define SLACK (200 * TS_MS) /* at the rate: how far bucket and replay may lie apart */
#define MOST_ELAPSED (200 * TS_S)

/* One process only, and one thread of it, deals with a measurement. */
static int take(uint64_t *at, uint64_t from, uint64_t measured_at) {
    return __atomic_compare_exchange_n(at, &from, measured_at, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Is there enough between two measurements to tell a share from? */
static int enough(const struct tessera_card_usage *shared, uint64_t ours, uint64_t age) {
    uint64_t longest = ts_get(shared->longest_ns), least = WINDOW_LAUNCHES * (longest < LONGEST ? longest : LONGEST);
    return age > WINDOW_AGE || ours >= (least > WINDOW_NS ? least : WINDOW_NS);
}

/* What is remembered of a sum after `age`. */
static uint64_t late(const uint64_t *at, uint64_t age) {
    uint64_t sum = ts_get(*at);
    return sum < ABSURD ? (uint64_t)((double)sum * MEMORY / (double)(MEMORY + age)) : 0;
}

/* Of sums, not of single windows: in a short one the two sides may lie a launch or a sample apart, and what
 * is granted too much by such a gain lowers the next one. The first knows nothing and is taken whole: sixteen
 * processes make event times sixteen times as long. */
static void trim(struct tessera_card_usage *shared, const struct tessera_card_limit *entry) {
    uint64_t from = ts_get(shared->gain_at_ns), age = entry->measured_at_ns - from;
    uint64_t measured = entry->measured_ns - shared->gain_measured_ns;
    uint64_t ours = entry->measured_usage_ns - shared->gain_usage_ns;
    int usable = from && ours <= ABSURD && measured <= ABSURD;
    if (entry->measured_at_ns <= from || (usable && !enough(shared, ours, age)) ||
        !take(&shared->gain_at_ns, from, entry->measured_at_ns))
        return;
    shared->gain_measured_ns = entry->measured_ns;
    shared->gain_usage_ns = entry->measured_usage_ns;
    ts_set(shared->measured_seen_ns, ts_now());
    if (!usable || ours < WINDOW_NS)
        return;
    uint64_t longest = ts_get(shared->longest_ns);
    ts_set(shared->longest_ns, longest - longest / 4); /* it may have been the last of its kind */
    measured += late(&shared->late_measured_ns, age);
    ours += late(&shared->late_usage_ns, age);
    ts_set(shared->late_measured_ns, measured);
    ts_set(shared->late_usage_ns, ours);
    uint64_t gain = measured * 1000 / ours; /* not of the shared sums: any process of the container can write them */
    gain = gain < LEAST_GAIN ? LEAST_GAIN : gain > MOST_GAIN ? MOST_GAIN : gain;
    __atomic_store_n(&shared->gain_permille, (uint32_t)gain, __ATOMIC_RELAXED);
}

/* The first measurement tells of all that ran so far, if the agent was there from the beginning: a new agent's
 * begins far above what was debited. Then nothing is left of what slices made too long until now. */
static int is_whole(const struct tessera_card_limit *entry, uint64_t debited) {
    return entry->measured_ns && entry->measured_ns <= debited && debited <= LONGEST;
}

/* Debited by the time of the measurement: what has been counted since then is taken off again. */
static void balance(struct ts_card *card, const struct tessera_card_limit *entry) {
    struct tessera_card_usage *shared = card->shared;
    uint64_t from = ts_get(shared->balance_at_ns), since = ts_get(shared->raw_ns) - entry->measured_usage_ns;
    if (entry->measured_at_ns <= from || !take(&shared->balance_at_ns, from, entry->measured_at_ns))
        return;
    uint64_t debited = ts_get(shared->gpu_ns) - ts_gained(card, since < ABSURD ? since : 0);
    int whole = !from && is_whole(entry, debited);
    int64_t owed = (int64_t)(entry->measured_ns - shared->balance_measured_ns) - (int64_t)(debited - shared->balance_gpu_ns);
    if ((!from && !whole) || since >= ABSURD || owed > APART || owed < -APART) {
        shared->balance_measured_ns = entry->measured_ns;
        shared->balance_gpu_ns = debited;
        return;
    }
    int64_t part = whole ? owed : owed / (ts_get(shared->longest_ns) > COARSE ? PART_OF_COARSE : PART_OF_FINE);
    uint32_t rate = __atomic_load_n(&card->rate_permille, __ATOMIC_RELAXED);
    int64_t room = ts_bucket_room(shared, rate); /* what would overflow is given back another time */
    if (rate < 1000 && part < -room)
        part = -room;
    shared->balance_gpu_ns -= (uint64_t)part; /* debited from here on, as if it had run; what is shown never shrinks */
    if (rate < 1000)
        ts_bucket_debit(shared, part);
}

/* Debited by any process of the container, and not known to have run. */
static int64_t under_way(const struct ts_card *card) {
    const struct tessera_usage *usage = ts_usage();
    int64_t sum = 0;
    for (uint32_t i = 0; i < ts_slots_high(); i++) {
        const struct tessera_slot *slot = &usage->slot[i];
        int64_t ns = __atomic_load_n(&slot->outstanding_ns, __ATOMIC_RELAXED);
        if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == TESSERA_SLOT_LIVE && slot->card == card->index && ns > 0 &&
            ns < TS_MOST_DEBT_NS)
            sum += ns;
    }
    return (int64_t)ts_gained(card, (uint64_t)sum);
}

/* Up to now, at one rate. */
static void entitle(struct tessera_card_usage *shared, uint32_t rate) {
    uint64_t now = ts_now(), since = now - __atomic_exchange_n(&shared->entitled_at_ns, now, __ATOMIC_RELAXED);
    if (since > MOST_ELAPSED)
        return;
    __atomic_add_fetch(&shared->entitled_permille_ns, since * (rate < 1000 ? rate : 1000), __ATOMIC_RELAXED);
    __atomic_add_fetch(&shared->entitled_for_ns, since, __ATOMIC_RELAXED);
}

/* Permille, since it was last asked for. The agent's clock and ours see the same changes of the rate. */
static double mean_rate(struct tessera_card_usage *shared, uint32_t rate) {
    entitle(shared, rate);
    uint64_t sum = __atomic_exchange_n(&shared->entitled_permille_ns, 0, __ATOMIC_RELAXED);
    uint64_t in = __atomic_exchange_n(&shared->entitled_for_ns, 0, __ATOMIC_RELAXED);
    return in && sum / in <= 1000 ? (double)sum / (double)in : rate;
}

/* What was saved up at a higher rate is not used at a lower one: a loan that is over is over. */
void ts_measured_rate(struct ts_card *card, uint32_t before, uint32_t now) {
    struct tessera_card_usage *shared = card->shared;
    entitle(shared, before);
    if (now >= before)
        return;
    int64_t cap = ts_bucket_cap(now);
    ts_bucket_bound(shared, INT64_MIN, cap);
    if (shared->replay_ns > cap)
        shared->replay_ns = cap;
}

/* Time that a container was kept from is not time that it did not want: then it may save up more. But nobody
 * owes it to a container that has only what is left. */
static void replay(struct ts_card *card, const struct tessera_card_limit *entry) {
    struct tessera_card_usage *shared = card->shared;
    uint32_t rate = __atomic_load_n(&card->rate_permille, __ATOMIC_RELAXED);
    uint64_t from = ts_get(shared->replay_at_ns), elapsed = entry->measured_at_ns - from;
    if (entry->measured_at_ns <= from || !take(&shared->replay_at_ns, from, entry->measured_at_ns))
        return;
    uint64_t measured = entry->measured_ns - shared->replay_measured_ns, throttled = ts_get(shared->throttled_ns);
    int waited = throttled != shared->replay_throttled_ns;
    shared->replay_measured_ns = entry->measured_ns;
    shared->replay_throttled_ns = throttled;
    double mean = mean_rate(shared, rate);
    if (!from || elapsed > MOST_ELAPSED || measured > 2 * elapsed || rate >= 1000) {
        shared->replay_ns = __atomic_load_n(&shared->tokens_ns, __ATOMIC_RELAXED);
        return;
    }
    int64_t running = under_way(card), cap = ts_bucket_cap(rate);
    int kept = waited || (running && measured), rest = ts_get(card->flags) & TESSERA_CARD_REST;
    int64_t most = kept && !rest ? TS_MOST_CREDIT_NS : cap, apart = (int64_t)(SLACK * rate / 1000);
    int64_t now = shared->replay_ns + (int64_t)((double)elapsed * mean / 1000) - (int64_t)measured;
    now = now > most ? most : now < -TS_MOST_DEBT_NS ? -TS_MOST_DEBT_NS : now;
    shared->replay_ns = now;
    ts_bucket_bound(shared, now - apart - running, now + apart);
}

int ts_measured_of_late(const struct ts_card *card) {
    uint64_t seen = ts_get(card->shared->measured_seen_ns), now = ts_now();
    return seen && (now < seen || now - seen < AGENT_IS_AWAY);
}

void ts_measured(struct ts_card *card, const struct tessera_card_limit *entry) {
    if (!entry->measured_at_ns)
        return;
    trim(card->shared, entry);
    balance(card, entry);
    replay(card, entry);
}
