/* What contexts and code take of the card. */
#ifndef TESSERA_SRC_OVERHEAD_H
#define TESSERA_SRC_OVERHEAD_H

#include "cards.h"
#include "ledger.h"

/* `before` and `after`: free memory of the card around its making; 0: not known. */
void ts_overhead_add(struct ts_card *card, enum ts_thing thing, const void *handle, uint64_t owner, uint64_t before,
                     uint64_t after);
/* The same for what is loaded later, on top of what is known of the handle; `owner` counts if nothing is. */
void ts_overhead_more(struct ts_card *card, enum ts_thing thing, const void *handle, uint64_t owner, uint64_t before,
                      uint64_t after);
void ts_overhead_remove(enum ts_thing thing, const void *handle);
uint64_t ts_overhead_free(void); /* as the current context says; 0: there is none */
uint64_t ts_overhead_free_by_nvml(const char *uuid); /* slower; 0: no NVML */

#endif
