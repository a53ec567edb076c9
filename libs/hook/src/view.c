/* What the container sees of a card's memory through the driver: its tile, and never more free
 * than the card really has. */
#include "charge.h"
#include "pools.h"
#include "relaxed.h"
#include "start.h"
#include "view.h"

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

TS_OFTEN uint64_t ts_view_total(const struct ts_card *card, uint64_t total) {
    uint64_t limit = __atomic_load_n(&card->limit_bytes, __ATOMIC_RELAXED);
    if (!ts_get(card->granted))
        return 0;
    return limit ? least(total, limit) : total;
}

TS_OFTEN uint64_t ts_view_free(const struct ts_card *card, uint64_t unused, uint64_t total) {
    return least(unused, least(ts_charge_room(card), ts_view_total(card, total)));
}

TS_OFTEN static struct ts_card *looked_at(CUresult r) {
    struct ts_card *card = r == CUDA_SUCCESS ? ts_card_current() : NULL;
    if (card) {
        ts_tick();
        ts_pools_settle_if_loose();
    }
    return card;
}

/* A caller may want only one of the two. */
TS_OFTEN CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    TS_ENTER(cuMemGetInfo_v2, (free_bytes, total));
    CUresult r = real.cuMemGetInfo_v2(free_bytes, total);
    struct ts_card *card = looked_at(r);
    if (card && free_bytes)
        *free_bytes = ts_view_free(card, *free_bytes, total ? *total : UINT64_MAX);
    if (card && total)
        *total = ts_view_total(card, *total);
    return r;
}

CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total) {
    TS_ENTER(cuMemGetInfo, (free_bytes, total));
    CUresult r = real.cuMemGetInfo(free_bytes, total);
    struct ts_card *card = looked_at(r);
    if (card && free_bytes)
        *free_bytes = (unsigned)ts_view_free(card, *free_bytes, total ? *total : UINT64_MAX);
    if (card && total)
        *total = (unsigned)ts_view_total(card, *total);
    return r;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    TS_ENTER(cuDeviceTotalMem_v2, (bytes, device));
    CUresult r = real.cuDeviceTotalMem_v2(bytes, device);
    struct ts_card *card = r == CUDA_SUCCESS ? ts_card_by_device(device) : NULL;
    if (card) {
        ts_tick();
        *bytes = ts_view_total(card, *bytes);
    }
    return r;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device) {
    TS_ENTER(cuDeviceTotalMem, (bytes, device));
    CUresult r = real.cuDeviceTotalMem(bytes, device);
    struct ts_card *card = r == CUDA_SUCCESS ? ts_card_by_device(device) : NULL;
    if (card) {
        ts_tick();
        *bytes = (unsigned)ts_view_total(card, *bytes);
    }
    return r;
}
