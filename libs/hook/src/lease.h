/* Turns of the processes of one container: who holds the card's lease launches, the others wait. So no time
 * slices of brothers fall into event times. It is for a container that is short of GPU time and has several
 * processes, and off under MPS, where their contexts run side by side. */
#ifndef TESSERA_SRC_LEASE_H
#define TESSERA_SRC_LEASE_H

#include "cards.h"
#include "relaxed.h"

#define TS_TURN_NS 4000000ll /* of GPU time */

void ts_lease_look(struct ts_card *card); /* now and then: are there brothers? */
void ts_lease_wait(struct ts_card *card);
void ts_lease_keep(struct ts_card *card, uint64_t wall_ns); /* its holder waits for GPU time */

static inline int ts_lease_is_short(const struct ts_card *card) {
    return __atomic_load_n(&card->shared->tokens_ns, __ATOMIC_RELAXED) < ts_get(card->lease_below_ns);
}

static inline int ts_lease_is_ours(const struct ts_card *card) {
    return card->slot >= 0 && __atomic_load_n(&card->shared->lease, __ATOMIC_ACQUIRE) == (uint32_t)card->slot + 1;
}

/* Before a launch that debits `own`. */
static inline void ts_lease(struct ts_card *card, int64_t own) {
    if (__builtin_expect(!ts_get(card->brothers), 1) || card->slot < 0)
        return;
    int ours = ts_lease_is_ours(card) && __atomic_load_n(&card->mine->turn_ns, __ATOMIC_RELAXED) < TS_TURN_NS;
    if (!ours && ts_lease_is_short(card))
        ts_lease_wait(card);
    __atomic_add_fetch(&card->mine->turn_ns, own, __ATOMIC_RELAXED);
}

#endif
