/* What the container sees of a card's memory through the driver: its tile, and never more free
 * than the card really has. */
#include "charge.h"
#include "pools.h"
#include "start.h"

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    TS_ENTER(cuMemGetInfo_v2, (free_bytes, total));
    CUresult r = real.cuMemGetInfo_v2(free_bytes, total);
    struct ts_card *card = r == CUDA_SUCCESS ? ts_card_current() : NULL;
    if (!card)
        return r;
    ts_tick();
    ts_pools_settle_if_loose();
    if (card->limit_bytes || !card->granted) {
        *total = least(*total, card->granted ? card->limit_bytes : 0);
        *free_bytes = least(*free_bytes, least(ts_charge_room(card), *total));
    }
    return r;
}

CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total) {
    TS_ENTER(cuMemGetInfo, (free_bytes, total));
    CUresult r = real.cuMemGetInfo(free_bytes, total);
    struct ts_card *card = r == CUDA_SUCCESS ? ts_card_current() : NULL;
    if (card && card->limit_bytes) {
        *total = (unsigned)least(*total, card->limit_bytes);
        *free_bytes = (unsigned)least(*free_bytes, ts_charge_room(card));
    }
    return r;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    TS_ENTER(cuDeviceTotalMem_v2, (bytes, device));
    CUresult r = real.cuDeviceTotalMem_v2(bytes, device);
    struct ts_card *card = r == CUDA_SUCCESS ? ts_card_by_device(device) : NULL;
    if (card) {
        ts_tick();
        if (card->limit_bytes)
            *bytes = least(*bytes, card->limit_bytes);
    }
    return r;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device) {
    TS_ENTER(cuDeviceTotalMem, (bytes, device));
    CUresult r = real.cuDeviceTotalMem(bytes, device);
    struct ts_card *card = r == CUDA_SUCCESS ? ts_card_by_device(device) : NULL;
    if (card && card->limit_bytes)
        *bytes = (unsigned)least(*bytes, card->limit_bytes);
    return r;
}
