/* Virtual memory management: physical memory made by cuMemCreate lives until its last handle is
 * released and its last mapping is gone, and is charged as long. */
#include "charge.h"
#include "foreign.h"
#include "memory.h"
#include "points.h"
#include "shortage.h"
#include "start.h"

/* The card on which the memory will lie; NULL for memory of the host. */
static struct ts_card *card_of(const CUmemAllocationProp *prop) {
    return prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? ts_card_by_device(prop->location.id) : NULL;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags) {
    TS_ENTER(cuMemCreate, (handle, size, prop, flags));
    struct ts_card *card = card_of(prop);
    if (!card || !size || !handle)
        return real.cuMemCreate(handle, size, prop, flags);
    if (!ts_memory_ask(card, TESSERA_VIRTUAL, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    ts_point("create: charged");
    CUresult r;
    TS_ALLOCATE(r, card, size, real.cuMemCreate(handle, size, prop, flags));
    struct ts_holding holding = {.key = r == CUDA_SUCCESS ? *handle : 0, .bytes = size, .references = 1,
                                 .thing = TS_VMM, .kind = TESSERA_VIRTUAL, .card = (uint8_t)card->index, .charged = 1};
    ts_memory_settle(card, r, size, size, &holding);
    return r;
}

/* From this container: charged where it was created. From elsewhere: charged when it is mapped, for
 * its size is not known before. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        CUmemAllocationHandleType type) {
    TS_ENTER(cuMemImportFromShareableHandle, (handle, shareable, type));
    CUresult r = real.cuMemImportFromShareableHandle(handle, shareable, type);
    struct ts_holding known;
    if (r != CUDA_SUCCESS)
        return r;
    if (ts_ledger_count(TS_VMM, *handle, 1, 0, &known)) /* our own, come back */
        return r;
    struct ts_card *card = ts_card_current();
    if (!card)
        return r;
    struct ts_holding holding = {.key = *handle, .references = 1, .thing = TS_VMM, .kind = TESSERA_VIRTUAL,
                                 .card = (uint8_t)card->index,
                                 .charged = (uint8_t)ts_foreign_from_elsewhere(shareable, type)};
    ts_ledger_put(&holding);
    return r;
}

static void drop_if_gone(int counted, const struct ts_holding *holding) {
    if (counted == 2)
        ts_memory_drop(holding);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    TS_ENTER(cuMemRelease, (handle));
    struct ts_holding before = {0}, now;
    int known = ts_ledger_look(TS_VMM, handle, &before);
    /* Counted first: once the driver has let go, it may hand out the same handle again. */
    int counted = known ? ts_ledger_count(TS_VMM, handle, -1, 0, &now) : 0;
    CUresult r = real.cuMemRelease(handle);
    ts_point("release: driver");
    if (r == CUDA_SUCCESS)
        drop_if_gone(counted, &now);
    else if (counted == 2)
        ts_ledger_put(&before);
    else if (counted)
        ts_ledger_count(TS_VMM, handle, 1, 0, &now);
    return r;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
    TS_ENTER(cuMemRetainAllocationHandle, (handle, addr));
    CUresult r = real.cuMemRetainAllocationHandle(handle, addr);
    struct ts_holding now;
    if (r == CUDA_SUCCESS && handle)
        ts_ledger_count(TS_VMM, *handle, 1, 0, &now);
    return r;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    TS_ENTER(cuMemMap, (ptr, size, offset, handle, flags));
    struct ts_holding now, before;
    uint64_t more = 0, end = offset + size;
    int known = ts_ledger_look(TS_VMM, handle, &before);
    if (known && before.bytes < end && end >= offset)
        more = end - before.bytes;
    if (more && before.charged && !ts_memory_ask(&ts_cards[before.card], TESSERA_VIRTUAL, more))
        return CUDA_ERROR_OUT_OF_MEMORY;
    ts_point("map: charged");
    CUresult r = real.cuMemMap(ptr, size, offset, handle, flags);
    int extended = r == CUDA_SUCCESS && more && ts_ledger_extend(TS_VMM, handle, end);
    if (more && before.charged && !extended)
        ts_uncharge(&ts_cards[before.card], TESSERA_VIRTUAL, more);
    else if (extended && !before.charged)
        ts_foreign_shown(&ts_cards[before.card], (int64_t)more);
    ts_point("map: driver");
    if (r == CUDA_SUCCESS && ts_ledger_count(TS_VMM, handle, 0, 1, &now)) {
        struct ts_holding mapping = {.key = ptr, .bytes = size, .owner = handle, .thing = TS_MAPPING};
        ts_ledger_put(&mapping);
    }
    return r;
}

static void unmapped(const struct ts_holding *mapping) {
    struct ts_holding now;
    drop_if_gone(ts_ledger_count(TS_VMM, mapping->owner, 0, -1, &now), &now);
}

/* One call may undo several mappings, side by side or with holes of any size between them. */
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    TS_ENTER(cuMemUnmap, (ptr, size));
    CUresult r = real.cuMemUnmap(ptr, size);
    ts_point("unmap: driver");
    if (r != CUDA_SUCCESS)
        return r;
    struct ts_holding mapping;
    CUdeviceptr at = ptr;
    while (at < ptr + size && ts_ledger_take(TS_MAPPING, at, &mapping) && mapping.bytes) {
        unmapped(&mapping);
        at += mapping.bytes;
    }
    while (at < ptr + size && ts_ledger_take_within(TS_MAPPING, at, ptr + size, &mapping))
        unmapped(&mapping);
    return r;
}
