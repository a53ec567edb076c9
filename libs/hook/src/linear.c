/* Linear memory: cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, cuMemFree. */
#include "charge.h"
#include "foreign.h"
#include "memory.h"
#include "pools.h"
#include "points.h"
#include "relaxed.h"
#include "start.h"

#define PITCH 512u /* rows are aligned to this until the driver says how far apart they lie */

static struct ts_holding pointer(struct ts_card *card, enum tessera_kind kind, CUdeviceptr at, uint64_t bytes) {
    return (struct ts_holding){.key = at, .bytes = bytes, .owner = ts_memory_context(), .thing = TS_POINTER,
                               .kind = (uint8_t)kind, .card = (uint8_t)card->index, .charged = 1};
}

/* Oversubscription: what would not lie on the card within resident_bytes becomes managed. */
static enum tessera_kind kind_for(const struct ts_card *card, uint64_t bytes) {
    int over = ts_memory_pages(bytes) > ts_charge_resident_room(card);
    return over && real.cuMemAllocManaged ? TESSERA_MANAGED : TESSERA_DEVICE;
}

static CUresult allocate(struct ts_card *card, enum tessera_kind kind, CUdeviceptr *at, size_t bytes, unsigned flags) {
    uint64_t cost = kind == TESSERA_MANAGED ? ts_memory_round(bytes) : ts_memory_pages(bytes);
    if (!ts_memory_ask(card, kind, cost)) {
        if (kind == TESSERA_DEVICE && kind_for(card, bytes) == TESSERA_MANAGED) /* another thread was faster */
            return allocate(card, TESSERA_MANAGED, at, bytes, flags);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    ts_point("alloc: charged");
    CUresult r = kind == TESSERA_MANAGED ? real.cuMemAllocManaged(at, bytes, flags) : real.cuMemAlloc_v2(at, bytes);
    ts_point("alloc: driver");
    struct ts_holding holding = pointer(card, kind, r == CUDA_SUCCESS ? *at : 0, cost);
    ts_memory_settle(card, r, cost, cost, &holding);
    ts_point("alloc: settled");
    return r;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes) {
    TS_ENTER(cuMemAlloc_v2, (dptr, bytes));
    struct ts_card *card = ts_card_current();
    if (!card || !bytes || !dptr)
        return real.cuMemAlloc_v2(dptr, bytes);
    return allocate(card, kind_for(card, bytes), dptr, bytes, CU_MEM_ATTACH_GLOBAL);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes) {
    TS_ENTER(cuMemAlloc, (dptr, bytes));
    struct ts_card *card = ts_card_current();
    uint64_t cost = ts_memory_pages(bytes);
    if (!card || !bytes || !dptr)
        return real.cuMemAlloc(dptr, bytes);
    if (!ts_memory_ask(card, TESSERA_DEVICE, cost))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = real.cuMemAlloc(dptr, bytes);
    struct ts_holding holding = pointer(card, TESSERA_DEVICE, r == CUDA_SUCCESS ? *dptr : 0, cost);
    ts_memory_settle(card, r, cost, cost, &holding);
    return r;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags) {
    TS_ENTER(cuMemAllocManaged, (dptr, bytes, flags));
    struct ts_card *card = ts_card_current();
    if (!card || !bytes || !dptr)
        return real.cuMemAllocManaged(dptr, bytes, flags);
    return allocate(card, TESSERA_MANAGED, dptr, bytes, flags);
}

static uint64_t pitched(uint64_t width, uint64_t height) {
    uint64_t row = width > UINT64_MAX - PITCH ? width : (width + PITCH - 1) & ~(uint64_t)(PITCH - 1), all;
    return __builtin_mul_overflow(row, height, &all) ? UINT64_MAX : ts_memory_pages(all);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int element) {
    TS_ENTER(cuMemAllocPitch_v2, (dptr, pitch, width, height, element));
    struct ts_card *card = ts_card_current();
    uint64_t cost = pitched(width, height);
    if (!card || !cost || !dptr || !pitch)
        return real.cuMemAllocPitch_v2(dptr, pitch, width, height, element);
    if (!ts_memory_ask(card, TESSERA_DEVICE, cost))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = real.cuMemAllocPitch_v2(dptr, pitch, width, height, element);
    uint64_t really = r == CUDA_SUCCESS ? ts_memory_pages(*pitch * height) : cost;
    struct ts_holding holding = pointer(card, TESSERA_DEVICE, r == CUDA_SUCCESS ? *dptr : 0, really);
    if (ts_memory_settle(card, r, cost, really, &holding))
        return r;
    real.cuMemFree_v2(*dptr);
    *dptr = 0;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width, unsigned int height,
                         unsigned int element) {
    TS_ENTER(cuMemAllocPitch, (dptr, pitch, width, height, element));
    struct ts_card *card = ts_card_current();
    uint64_t cost = pitched(width, height);
    if (!card || !cost || !dptr || !pitch)
        return real.cuMemAllocPitch(dptr, pitch, width, height, element);
    if (!ts_memory_ask(card, TESSERA_DEVICE, cost))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = real.cuMemAllocPitch(dptr, pitch, width, height, element);
    uint64_t really = r == CUDA_SUCCESS ? ts_memory_pages((uint64_t)*pitch * height) : cost;
    struct ts_holding holding = pointer(card, TESSERA_DEVICE, r == CUDA_SUCCESS ? *dptr : 0, really);
    if (ts_memory_settle(card, r, cost, really, &holding))
        return r;
    real.cuMemFree_v2(*dptr);
    *dptr = 0;
    return CUDA_ERROR_OUT_OF_MEMORY;
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
