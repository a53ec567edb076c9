/* Allocations of less than half a page share pages of 2 MiB with others of their process, and their addresses say
 * which. A page is charged from the first allocation in it to the last, as the driver holds it. */
#ifndef TESSERA_SRC_PAGES_H
#define TESSERA_SRC_PAGES_H

#include "cards.h"
#include "ledger.h"
#include "real.h"

#define TS_PAGE_BYTES (UINT64_C(2) << 20)

/* By what ts_memory_pages says of it. */
static inline int ts_pages_shared(uint64_t cost) {
    return cost < TS_PAGE_BYTES;
}

/* What an allocation is charged before the driver makes it: nothing if there is room in pages that are charged. */
uint64_t ts_pages_ahead(const struct ts_card *card, uint64_t cost);
/* It lies at `at`: what must be charged for it. */
uint64_t ts_pages_enter(struct ts_card *card, CUdeviceptr at, uint64_t cost);
/* It is gone: what need not be charged any more. */
uint64_t ts_pages_leave(struct ts_card *card, CUdeviceptr at, uint64_t cost);

#endif
