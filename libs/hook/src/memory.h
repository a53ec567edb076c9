/* What all memory wrappers share: charge before the driver is asked, undo if it refuses. */
#ifndef TESSERA_SRC_MEMORY_H
#define TESSERA_SRC_MEMORY_H

#include "cards.h"
#include "ledger.h"
#include "real.h"

/* 1: charged, go on. 0: refuse with CUDA_ERROR_OUT_OF_MEMORY; counted as a denial. Gives back what
 * idle pools and dead processes hold before it refuses. */
int ts_memory_ask(struct ts_card *card, enum tessera_kind kind, uint64_t bytes);
/* The driver has answered: remember the holding, or undo the charge. `really` is what it costs; 0: that
 * is more than was asked for and does not fit, nothing is charged, and the caller has to free it. */
int ts_memory_settle(struct ts_card *card, CUresult r, uint64_t asked, uint64_t really,
                      const struct ts_holding *holding);
/* Uncharge what a holding was charged, or no longer show it. */
void ts_memory_drop(const struct ts_holding *holding);
uint64_t ts_memory_context(void); /* the current context, as a ledger's owner */
uint64_t ts_memory_pages(uint64_t bytes); /* of one allocation: whole pages from half a page on */
uint64_t ts_memory_round(uint64_t bytes); /* to the driver's smallest piece, saturating */

#endif
