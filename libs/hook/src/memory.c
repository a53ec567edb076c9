#include "memory.h"

#include "charge.h"
#include "clock.h"
#include "limits.h"
#include "log.h"
#include "pages.h"
#include "pools.h"
#include "relaxed.h"
#include "start.h"

#define PIECE 512u /* the driver carves memory in pieces of at least this */

uint64_t ts_memory_round(uint64_t bytes) {
    return bytes > UINT64_MAX - PIECE ? bytes : (bytes + PIECE - 1) & ~(uint64_t)(PIECE - 1);
}

/* Smaller ones share pages (pages.h). */
uint64_t ts_memory_pages(uint64_t bytes) {
    if (bytes < TS_PAGE_BYTES / 2 || bytes > UINT64_MAX - TS_PAGE_BYTES)
        return ts_memory_round(bytes);
    return (bytes + TS_PAGE_BYTES - 1) & ~(uint64_t)(TS_PAGE_BYTES - 1);
}

uint64_t ts_memory_context(void) {
    CUcontext context = NULL;
    if (!real.cuCtxGetCurrent || real.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return 0;
    return (uint64_t)(uintptr_t)context;
}

static void stamp(struct ts_card *card) {
    __atomic_store_n(&card->mine->last_active_ns, ts_real_of(ts_get(ts_ticked)), __ATOMIC_RELAXED);
}

static void wait_while_suspended(void) {
    while (ts_limits_flags() & TESSERA_SUSPEND) {
        ts_sleep(10 * TS_MS);
        ts_tick();
    }
}

int ts_memory_ask(struct ts_card *card, enum tessera_kind kind, uint64_t bytes) {
    ts_tick();
    if (ts_unlikely(ts_limits_flags() & TESSERA_SUSPEND))
        wait_while_suspended();
    int fits = ts_charge(card, kind, bytes);
    if (!fits && ts_pools_give_back(card))
        fits = ts_charge(card, kind, bytes);
    if (!fits) {
        ts_tick_now(); /* the limit may have been raised a moment ago */
        fits = ts_charge(card, kind, bytes);
    }
    if (!fits)
        ts_charge_denied(card, bytes);
    else
        stamp(card);
    return fits;
}

int ts_memory_settle(struct ts_card *card, CUresult r, uint64_t asked, uint64_t really,
                      const struct ts_holding *holding) {
    enum tessera_kind kind = (enum tessera_kind)holding->kind;
    if (r != CUDA_SUCCESS) {
        ts_uncharge(card, kind, asked);
        return 1;
    }
    if (really > asked && !ts_memory_ask(card, kind, really - asked)) {
        ts_uncharge(card, kind, asked);
        return 0;
    }
    if (really < asked)
        ts_uncharge(card, kind, asked - really);
    if (!ts_ledger_put(holding))
        ts_log_once(TS_LOG_ERROR, "no memory for the ledger: some memory stays charged until this process ends");
    return 1;
}

void ts_memory_drop(const struct ts_holding *holding) {
    if (holding->card >= TESSERA_CARDS)
        return;
    struct ts_card *card = &ts_cards[holding->card];
    if (holding->charged)
        ts_uncharge(card, (enum tessera_kind)holding->kind, holding->bytes);
    else if (holding->kind == TESSERA_CONTEXT)
        __atomic_sub_fetch(&card->mine->overhead_bytes, holding->bytes, __ATOMIC_RELAXED);
    else if (holding->thing == TS_FOREIGN || holding->thing == TS_VMM || holding->thing == TS_POOL_IMPORT)
        __atomic_sub_fetch(&card->mine->imported_bytes, holding->bytes, __ATOMIC_RELAXED);
    else if (holding->thing == TS_POINTER)
        ts_uncharge(card, TESSERA_DEVICE, ts_pages_leave(card, holding->key, holding->bytes));
}
