/* Linear memory: cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, cuMemFree. */
#include "charge.h"
#include "foreign.h"
#include "memory.h"
#include "pages.h"
#include "points.h"
#include "pools.h"
#include "relaxed.h"
#include "shortage.h"
#include "start.h"

#define PITCH 512u /* rows are aligned to this until the driver says how far apart they lie */

static struct ts_holding pointer(struct ts_card *card, enum tessera_kind kind, CUdeviceptr at, uint64_t bytes) {
    return (struct ts_holding){.key = at, .bytes = bytes, .owner = ts_memory_context(), .thing = TS_POINTER,
                               .kind = (uint8_t)kind, .card = (uint8_t)card->index, .charged = 1};
}

static uint64_t ahead_of(const struct ts_card *card, uint64_t cost) {
    return ts_pages_shared(cost) ? ts_pages_ahead(card, cost) : cost;
}

/* 0: it lies in a page that does not fit, and the caller has to free it. */
static int settle(struct ts_card *card, CUresult r, uint64_t ahead, CUdeviceptr at, uint64_t cost) {
    struct ts_holding holding = pointer(card, TESSERA_DEVICE, r == CUDA_SUCCESS ? at : 0, cost);
    if (r != CUDA_SUCCESS || !ts_pages_shared(cost))
        return ts_memory_settle(card, r, ahead, cost, &holding);
    holding.charged = 0;
    if (ts_memory_settle(card, r, ahead, ts_pages_enter(card, at, cost), &holding))
        return 1;
    ts_pages_leave(card, at, cost);
    return 0;
}

static CUresult undo(CUdeviceptr at) {
    real.cuMemFree_v2(at);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Oversubscription: what would not lie on the card within resident_bytes becomes managed. */
static int is_over(const struct ts_card *card, uint64_t cost) {
    return cost > ts_charge_resident_room(card) && real.cuMemAllocManaged;
}

static CUresult allocate_managed(struct ts_card *card, CUdeviceptr *at, size_t bytes, unsigned flags) {
    uint64_t cost = ts_memory_round(bytes);
    if (!ts_memory_ask(card, TESSERA_MANAGED, cost))
        return CUDA_ERROR_OUT_OF_MEMORY;
    ts_point("alloc: charged");
    CUresult r = real.cuMemAllocManaged(at, bytes, flags);
    ts_point("alloc: driver");
    struct ts_holding holding = pointer(card, TESSERA_MANAGED, r == CUDA_SUCCESS ? *at : 0, cost);
    ts_memory_settle(card, r, cost, cost, &holding);
    ts_point("alloc: settled");
    return r;
}

static CUresult allocate(struct ts_card *card, CUdeviceptr *at, size_t bytes) {
    uint64_t cost = ts_memory_pages(bytes), ahead = ahead_of(card, cost);
    if (is_over(card, ahead))
        return allocate_managed(card, at, bytes, CU_MEM_ATTACH_GLOBAL);
    if (!ts_memory_ask(card, TESSERA_DEVICE, ahead)) /* or another thread was faster */
        return is_over(card, ahead) ? allocate_managed(card, at, bytes, CU_MEM_ATTACH_GLOBAL) : CUDA_ERROR_OUT_OF_MEMORY;
    ts_point("alloc: charged");
    CUresult r;
    TS_ALLOCATE(r, card, cost, real.cuMemAlloc_v2(at, bytes));
    ts_point("alloc: driver");
    if (!settle(card, r, ahead, *at, cost)) {
        r = undo(*at);
        if (is_over(card, TS_PAGE_BYTES))
            return allocate_managed(card, at, bytes, CU_MEM_ATTACH_GLOBAL);
        *at = 0;
    }
    ts_point("alloc: settled");
    return r;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes) {
    TS_ENTER(cuMemAlloc_v2, (dptr, bytes));
    struct ts_card *card = ts_card_current();
    if (!card || !bytes || !dptr)
        return real.cuMemAlloc_v2(dptr, bytes);
    return allocate(card, dptr, bytes);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes) {
    TS_ENTER(cuMemAlloc, (dptr, bytes));
    struct ts_card *card = ts_card_current();
    if (!card || !bytes || !dptr)
        return real.cuMemAlloc(dptr, bytes);
    uint64_t cost = ts_memory_pages(bytes), ahead = ahead_of(card, cost);
    if (!ts_memory_ask(card, TESSERA_DEVICE, ahead))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r;
    TS_ALLOCATE(r, card, cost, real.cuMemAlloc(dptr, bytes));
    if (settle(card, r, ahead, *dptr, cost))
        return r;
    r = undo(*dptr);
    *dptr = 0;
    return r;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags) {
    TS_ENTER(cuMemAllocManaged, (dptr, bytes, flags));
    struct ts_card *card = ts_card_current();
    if (!card || !bytes || !dptr)
        return real.cuMemAllocManaged(dptr, bytes, flags);
    return allocate_managed(card, dptr, bytes, flags);
}

static uint64_t pitched(uint64_t width, uint64_t height) {
    uint64_t row = width > UINT64_MAX - PITCH ? width : (width + PITCH - 1) & ~(uint64_t)(PITCH - 1), all;
    return __builtin_mul_overflow(row, height, &all) ? UINT64_MAX : ts_memory_pages(all);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int element) {
    TS_ENTER(cuMemAllocPitch_v2, (dptr, pitch, width, height, element));
    struct ts_card *card = ts_card_current();
    uint64_t cost = pitched(width, height), ahead;
    if (!card || !cost || !dptr || !pitch)
        return real.cuMemAllocPitch_v2(dptr, pitch, width, height, element);
    ahead = ahead_of(card, cost);
    if (!ts_memory_ask(card, TESSERA_DEVICE, ahead))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r;
    TS_ALLOCATE(r, card, cost, real.cuMemAllocPitch_v2(dptr, pitch, width, height, element));
    uint64_t really = r == CUDA_SUCCESS ? ts_memory_pages(*pitch * height) : cost;
    if (settle(card, r, ahead, *dptr, really))
        return r;
    r = undo(*dptr);
    *dptr = 0;
    return r;
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width, unsigned int height,
                         unsigned int element) {
    TS_ENTER(cuMemAllocPitch, (dptr, pitch, width, height, element));
    struct ts_card *card = ts_card_current();
    uint64_t cost = pitched(width, height), ahead;
    if (!card || !cost || !dptr || !pitch)
        return real.cuMemAllocPitch(dptr, pitch, width, height, element);
    ahead = ahead_of(card, cost);
    if (!ts_memory_ask(card, TESSERA_DEVICE, ahead))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r;
    TS_ALLOCATE(r, card, cost, real.cuMemAllocPitch(dptr, pitch, width, height, element));
    uint64_t really = r == CUDA_SUCCESS ? ts_memory_pages((uint64_t)*pitch * height) : cost;
    if (settle(card, r, ahead, *dptr, really))
        return r;
    r = undo(*dptr);
    *dptr = 0;
    return r;
}

/* Out of the ledger before the driver frees it: afterwards another thread may be given the same
 * address. Back in if the driver refuses. */
CUresult cuMemFree_v2(CUdeviceptr dptr) {
    TS_ENTER(cuMemFree_v2, (dptr));
    struct ts_holding holding;
    int known = ts_ledger_take(TS_POINTER, dptr, &holding) || ts_ledger_take(TS_ASYNC, dptr, &holding) ||
                ts_foreign_take(dptr, &holding);
    if (known && ts_unlikely(holding.references))
        ts_foreign_freed(&holding);
    CUresult r = real.cuMemFree_v2(dptr);
    ts_point("free: driver");
    if (known && r == CUDA_SUCCESS)
        ts_memory_drop(&holding);
    else if (known)
        ts_ledger_put(&holding);
    if (known && holding.thing == TS_ASYNC)
        ts_pools_settle();
    return r;
}

CUresult cuMemFree(CUdeviceptr_v1 dptr) {
    TS_ENTER(cuMemFree, (dptr));
    struct ts_holding holding;
    int known = ts_ledger_take(TS_POINTER, dptr, &holding);
    CUresult r = real.cuMemFree(dptr);
    if (known && r == CUDA_SUCCESS)
        ts_memory_drop(&holding);
    else if (known)
        ts_ledger_put(&holding);
    return r;
}
