/* The charge: what a container holds on a card, one number for all its processes. */
#ifndef TESSERA_SRC_CHARGE_H
#define TESSERA_SRC_CHARGE_H

#include "cards.h"

/* Add `bytes` if they fit; 0 if they do not. Dead processes are reclaimed before it says no. */
int ts_charge(struct ts_card *card, enum tessera_kind kind, uint64_t bytes);
void ts_charge_anyway(struct ts_card *card, enum tessera_kind kind, uint64_t bytes);
void ts_uncharge(struct ts_card *card, enum tessera_kind kind, uint64_t bytes);
/* Make what is charged for `kind` by a smaller owner (a pool) go from `was` to `is`. */
void ts_recharge(struct ts_card *card, enum tessera_kind kind, uint64_t was, uint64_t is);
/* What may still lie on an oversubscribed card; on any other as much as the limit allows. */
uint64_t ts_charge_resident_room(const struct ts_card *card);
void ts_charge_denied(struct ts_card *card, uint64_t bytes);
uint64_t ts_charged(const struct ts_card *card);
/* What may still be taken under the limit; UINT64_MAX: no limit. */
uint64_t ts_charge_room(const struct ts_card *card);

#endif
