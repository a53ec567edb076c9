#include "charge.h"

#include <string.h>

#include "clock.h"
#include "limits.h"
#include "log.h"
#include "points.h"
#include "relaxed.h"
#include "slots.h"
#include "start.h"
#include "usage_map.h"

#define HOUR (3600 * TS_S)
#define ABSURD (UINT64_C(1) << 60) /* nobody holds an exabyte: somebody wrote into the file */

static int ensure_slot(struct ts_card *card) {
    return card->slot >= 0 || ts_slot_claim(card);
}

static void add(uint64_t *at, uint64_t bytes) {
    __atomic_store_n(at, __atomic_load_n(at, __ATOMIC_RELAXED) + bytes, __ATOMIC_RELAXED);
}

static void subtract(uint64_t *at, uint64_t bytes) {
    uint64_t now = __atomic_load_n(at, __ATOMIC_RELAXED);
    __atomic_store_n(at, now > bytes ? now - bytes : 0, __ATOMIC_RELAXED);
}

/* Under the lock: so much is held. What was held when an hour began is of that hour, too. */
static void note_peaks(struct tessera_card_usage *shared, uint64_t held) {
    uint64_t hour = ts_real_of(ts_get(ts_ticked)) / HOUR;
    if (held > shared->peak_bytes)
        shared->peak_bytes = held;
    if (hour <= shared->peak_hour && held <= shared->hour_peak_bytes)
        return;
    shared->hour_peak_bytes = held;
    if (hour > shared->peak_hour)
        shared->peak_hour = hour;
}

/* We were stopped so long that the lock was taken from us: others have counted and charged since,
 * and what we stored as the sum is stale. Our slot is right; the sum is counted anew. */
static void count_anew(struct tessera_card_usage *shared, const struct ts_card *card, uint32_t as) {
    do {
        ts_card_lock(shared, as);
        ts_card_recount(shared, card->index);
    } while (!ts_card_unlock(shared, as));
}

/* First our slot, then the sum: if we die between the two, whoever takes the lock counts anew. */
static int charge_once(struct ts_card *card, enum tessera_kind kind, uint64_t bytes, int anyway, int *lost) {
    struct tessera_card_usage *shared = card->shared;
    uint32_t as = (uint32_t)card->slot;
    ts_card_lock(shared, as);
    ts_point("charge: locked");
    uint64_t limit = __atomic_load_n(&card->limit_bytes, __ATOMIC_RELAXED);
    if (shared->charged_bytes > ABSURD)
        ts_card_recount(shared, card->index);
    uint64_t held = shared->charged_bytes;
    int fits = anyway || !limit || (bytes <= limit && held <= limit - bytes);
    if (!anyway && kind != TESSERA_MANAGED && bytes > ts_charge_resident_room(card))
        fits = 0;
    ts_point("charge: looked");
    if (fits) {
        add(&card->own[kind], bytes);
        add(&card->mine->bytes[kind], bytes);
        ts_point("charge: slot");
        __atomic_store_n(&shared->charged_bytes, held + bytes, __ATOMIC_RELAXED);
        note_peaks(shared, held + bytes);
        add(&shared->allocated_bytes, bytes);
        ts_point("charge: sum");
    }
    *lost = !ts_card_unlock(shared, as);
    if (*lost && fits) { /* what we compared with was old: once more */
        subtract(&card->own[kind], bytes);
        subtract(&card->mine->bytes[kind], bytes);
        count_anew(shared, card, as);
    }
    return fits;
}

static int try_charge(struct ts_card *card, enum tessera_kind kind, uint64_t bytes, int anyway) {
    ts_lock_take(&card->lock);
    if (!ensure_slot(card)) {
        ts_lock_give(&card->lock);
        return 0;
    }
    int fits, lost;
    do
        fits = charge_once(card, kind, bytes, anyway, &lost);
    while (lost);
    ts_lock_give(&card->lock);
    return fits;
}

static int is_within(const struct ts_card *card) {
    uint64_t limit = ts_get(card->limit_bytes);
    return !limit || ts_charged(card) <= limit;
}

int ts_charge(struct ts_card *card, enum tessera_kind kind, uint64_t bytes) {
    if (!ts_get(card->granted) || ((ts_limits_flags() & TESSERA_CLOSED) && !ts_usage_shared()))
        return 0;
    if (!bytes && card->slot >= 0 && is_within(card)) /* nothing changes: no lock */
        return 1;
    if (try_charge(card, kind, bytes, 0))
        return 1;
    return ts_slots_reap() > 0 && try_charge(card, kind, bytes, 0);
}

void ts_charge_anyway(struct ts_card *card, enum tessera_kind kind, uint64_t bytes) {
    if (bytes && !try_charge(card, kind, bytes, 1))
        ts_log_once(TS_LOG_ERROR, "no slot in the usage file: memory goes uncharged");
}

void ts_uncharge(struct ts_card *card, enum tessera_kind kind, uint64_t bytes) {
    if (!bytes || card->slot < 0)
        return;
    ts_lock_take(&card->lock);
    struct tessera_card_usage *shared = card->shared;
    uint32_t as = (uint32_t)card->slot;
    ts_card_lock(shared, as);
    ts_point("uncharge: locked");
    note_peaks(shared, shared->charged_bytes);
    subtract(&card->own[kind], bytes);
    subtract(&card->mine->bytes[kind], bytes);
    ts_point("uncharge: slot");
    subtract(&shared->charged_bytes, bytes);
    if (!ts_card_unlock(shared, as))
        count_anew(shared, card, as);
    ts_lock_give(&card->lock);
}

void ts_recharge(struct ts_card *card, enum tessera_kind kind, uint64_t was, uint64_t is) {
    if (is > was)
        ts_charge_anyway(card, kind, is - was);
    else
        ts_uncharge(card, kind, was - is);
}

void ts_charge_denied(struct ts_card *card, uint64_t bytes) {
    __atomic_add_fetch(&card->shared->denials, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&card->mine->denials, 1, __ATOMIC_RELAXED);
    ts_log(TS_LOG_NOTE, "%s: %llu bytes refused, %llu of %llu are in use", card->uuid, (unsigned long long)bytes,
           (unsigned long long)ts_charged(card), (unsigned long long)ts_get(card->limit_bytes));
}

uint64_t ts_charged(const struct ts_card *card) {
    return __atomic_load_n(&card->shared->charged_bytes, __ATOMIC_RELAXED);
}

uint64_t ts_charge_resident_room(const struct ts_card *card) {
    uint64_t resident = ts_get(card->resident_bytes);
    if (!(ts_get(card->flags) & TESSERA_CARD_OVERSUBSCRIBE) || !resident)
        return UINT64_MAX;
    uint64_t held = ts_charged(card), managed = ts_card_managed(card->index);
    uint64_t there = held > managed ? held - managed : 0;
    return there < resident ? resident - there : 0;
}

TS_OFTEN uint64_t ts_charge_room(const struct ts_card *card) {
    uint64_t limit = __atomic_load_n(&card->limit_bytes, __ATOMIC_RELAXED);
    uint64_t held = ts_charged(card);
    if (!ts_get(card->granted))
        return 0;
    if (!limit)
        return UINT64_MAX;
    return held < limit ? limit - held : 0;
}
