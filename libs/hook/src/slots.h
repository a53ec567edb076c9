/* One slot per process and card in the usage file: claimed when first needed, given back by the
 * living when its process died. */
#ifndef TESSERA_SRC_SLOTS_H
#define TESSERA_SRC_SLOTS_H

#include "cards.h"

int ts_slot_claim(struct ts_card *card); /* 0: no slot is free */
void ts_slot_want(struct ts_card *card); /* claims one now or later: asks not more than ten times a second */
uint32_t ts_slots_high(void); /* no slot from here on was ever in use */
int ts_slots_reap_in_turn(uint64_t every); /* 0: a process of the container did within that time */
int ts_slots_reap(void);                 /* returns how many were reclaimed */
int ts_slot_alive(const struct tessera_slot *slot, uint32_t index);
void ts_gap(uint32_t gap); /* note in all our slots what cannot be enforced */

/* The lock over one card's memory numbers in the usage file. `as` is our slot. */
void ts_card_lock(struct tessera_card_usage *shared, uint32_t as);
int ts_card_unlock(struct tessera_card_usage *shared, uint32_t as); /* 0: it had been taken from us */
uint64_t ts_card_managed(uint32_t card); /* bytes of managed memory that the slots of a card say */
void ts_card_recount(struct tessera_card_usage *shared, uint32_t card);

#endif
