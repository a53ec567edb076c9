/* What contexts and code take of the card. */
#ifndef TESSERA_SRC_OVERHEAD_H
#define TESSERA_SRC_OVERHEAD_H

#include "cards.h"
#include "ledger.h"

/* What was taken while the free memory of a card fell from `before` to `after`; 0: not known. */
static inline uint64_t ts_overhead_taken(uint64_t before, uint64_t after) {
    return before && after && after < before ? before - after : 0;
}
/* So much was taken for it now; in all it cannot be more than `most`, for a neighbour may take memory at the same time.
 * `owner`: the context that it goes with. */
void ts_overhead_add(struct ts_card *card, enum ts_thing thing, uint64_t key, uint64_t owner, uint64_t taken, uint64_t most);
/* A function was loaded, which may be a kernel of a library; before that, free memory was `before`. */
void ts_overhead_function(struct ts_card *card, const void *function, uint64_t before);
void ts_overhead_remove(enum ts_thing thing, uint64_t key);
uint64_t ts_overhead_free(void); /* as the current context says; 0: there is none */
uint64_t ts_overhead_free_by_nvml(const char *uuid); /* slower; 0: no NVML */

#endif
