#include "bucket.h"

#define SECOND 1000000000ull
#define BIN_NS 1000000u
#define USED_BITS 20
#define USED_MASK ((1u << USED_BITS) - 1)

int64_t ts_bucket_cap(uint32_t rate) {
    return TS_BURST_NS * (int64_t)rate / 1000;
}

int64_t ts_bucket_room(const struct tessera_card_usage *card, uint32_t rate) {
    int64_t tokens = __atomic_load_n(&card->tokens_ns, __ATOMIC_RELAXED), cap = ts_bucket_cap(rate);
    return tokens < cap ? cap - tokens : 0;
}

void ts_bucket_fill(struct tessera_card_usage *card, uint32_t rate, uint64_t now) {
    uint64_t last = __atomic_load_n(&card->refilled_ns, __ATOMIC_RELAXED);
    if (now <= last && last - now < SECOND)
        return;
    if (!__atomic_compare_exchange_n(&card->refilled_ns, &last, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return; /* somebody else fills */
    /* A clock that ran backwards (another machine's file, garbage) fills nothing. */
    uint64_t elapsed = now > last ? now - last : 0;
    if (elapsed > 200 * SECOND)
        elapsed = 200 * SECOND;
    int64_t more = (int64_t)(elapsed * rate / 1000), cap = ts_bucket_cap(rate);
    int64_t tokens = __atomic_load_n(&card->tokens_ns, __ATOMIC_RELAXED), next;
    do {
        next = tokens < -TS_MOST_DEBT_NS ? -TS_MOST_DEBT_NS : tokens;
        next = next > cap ? (next < TS_MOST_CREDIT_NS ? next : TS_MOST_CREDIT_NS) : next > cap - more ? cap : next + more;
    } while (!__atomic_compare_exchange_n(&card->tokens_ns, &tokens, next, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

void ts_bucket_bound(struct tessera_card_usage *card, int64_t low, int64_t high) {
    int64_t tokens = __atomic_load_n(&card->tokens_ns, __ATOMIC_RELAXED), next;
    do
        next = tokens < low ? low : tokens > high ? high : tokens;
    while (next != tokens &&
           !__atomic_compare_exchange_n(&card->tokens_ns, &tokens, next, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

int64_t ts_bucket_debit(struct tessera_card_usage *card, int64_t ns) {
    return __atomic_sub_fetch(&card->tokens_ns, ns, __ATOMIC_RELAXED);
}

/* One bin: the millisecond it stands for now, and how much of it was taken. */
static uint64_t take_from(uint32_t *bin, uint64_t ms, uint64_t want) {
    uint32_t epoch = (uint32_t)(ms / TESSERA_BINS) << USED_BITS;
    uint32_t word = __atomic_load_n(bin, __ATOMIC_RELAXED), next;
    uint64_t take;
    do {
        uint32_t used = (word & ~USED_MASK) == epoch ? word & USED_MASK : 0;
        uint32_t room = used < BIN_NS ? BIN_NS - used : 0;
        take = want < room ? want : room;
        next = epoch | (used + (uint32_t)take);
    } while (!__atomic_compare_exchange_n(bin, &word, next, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return take;
}

static uint64_t take_between(uint32_t bin[TESSERA_BINS], uint64_t start, uint64_t end, uint64_t want) {
    uint64_t taken = 0;
    double density = (double)want / (double)(end - start), carry = 0;
    for (uint64_t at = start; at < end;) {
        uint64_t ms = at / BIN_NS, next = (ms + 1) * BIN_NS;
        if (next > end)
            next = end;
        carry += (double)(next - at) * density;
        uint64_t whole = (uint64_t)(carry + 0.5);
        carry -= (double)whole;
        taken += take_from(&bin[ms % TESSERA_BINS], ms, whole);
        at = next;
    }
    return taken;
}

/* Of what is longer than we remember, the end says how much of it overlaps. */
uint64_t ts_bins_take(uint32_t bin[TESSERA_BINS], uint64_t start, uint64_t end, uint64_t want) {
    const uint64_t remembered = (uint64_t)(TESSERA_BINS - 1) * BIN_NS;
    if (end <= start || want == 0)
        return want;
    uint64_t length = end - start;
    if (want > length)
        want = length;
    if (length <= remembered)
        return take_between(bin, start, end, want);
    uint64_t asked = (uint64_t)((double)want * (double)remembered / (double)length);
    uint64_t taken = asked ? take_between(bin, end - remembered, end, asked) : 0;
    return asked ? (uint64_t)((double)want * (double)taken / (double)asked) : want;
}
