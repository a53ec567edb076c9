/* Arrays and mipmapped arrays, at their true size. */
#include "memory.h"
#include "points.h"
#include "shortage.h"
#include "start.h"

#define SPARSE 0x40u

/* Bytes of one channel. Formats that this file does not know cost at most as much as the widest;
 * the driver's own figure replaces the estimate afterwards where it gives one. */
static uint64_t channel_bytes(CUarray_format format) {
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    default:
        return 4;
    }
}

static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned level) {
    uint64_t width = d->Width >> level, height = d->Height >> level, depth = d->Depth;
    if (!(d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
        depth >>= level;
    uint64_t texel = channel_bytes(d->Format) * (d->NumChannels ? d->NumChannels : 1);
    return times(times(texel, width ? width : 1), times(height ? height : 1, depth ? depth : 1));
}

static uint64_t all_levels(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels) {
    uint64_t sum = 0;
    if (d->Flags & (SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0; /* no memory of its own: it is mapped from cuMemCreate */
    for (unsigned level = 0; level < levels && level < 32; level++)
        if (__builtin_add_overflow(sum, level_bytes(d, level), &sum))
            return UINT64_MAX;
    return ts_memory_round(sum);
}

static struct ts_holding array_holding(struct ts_card *card, enum ts_thing thing, const void *handle, uint64_t bytes) {
    return (struct ts_holding){.key = (uint64_t)(uintptr_t)handle, .bytes = bytes, .owner = ts_memory_context(),
                               .thing = (uint8_t)thing, .kind = TESSERA_ARRAY, .card = (uint8_t)card->index,
                               .charged = 1};
}

static uint64_t true_array_bytes(struct ts_card *card, CUarray array, uint64_t estimate) {
    CUDA_ARRAY_MEMORY_REQUIREMENTS need = {0};
    if (estimate && real.cuArrayGetMemoryRequirements &&
        real.cuArrayGetMemoryRequirements(&need, array, card->ordinal) == CUDA_SUCCESS && need.size)
        return need.size;
    return estimate;
}

static CUresult settle_array(struct ts_card *card, CUresult r, uint64_t cost, CUarray *array) {
    uint64_t really = r == CUDA_SUCCESS ? true_array_bytes(card, *array, cost) : cost;
    struct ts_holding holding = array_holding(card, TS_ARRAY_HANDLE, r == CUDA_SUCCESS ? *array : NULL, really);
    if (ts_memory_settle(card, r, cost, really, &holding))
        return r;
    real.cuArrayDestroy(*array);
    *array = NULL;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The four entry points differ in the descriptor that they take. */
#define ARRAY_WRAPPER(symbol, descriptor, ...)                                               \
    CUresult symbol(CUarray *array, const descriptor *desc) {                                \
        TS_ENTER(symbol, (array, desc));                                                     \
        struct ts_card *card = ts_card_current();                                            \
        if (!card || !desc || !array)                                                        \
            return real.symbol(array, desc);                                                 \
        CUDA_ARRAY3D_DESCRIPTOR full = {.Width = desc->Width, .Height = desc->Height, .Format = desc->Format, \
                                        .NumChannels = desc->NumChannels, __VA_ARGS__};      \
        uint64_t cost = all_levels(&full, 1);                                                \
        if (!ts_memory_ask(card, TESSERA_ARRAY, cost))                                       \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                 \
        ts_point("array: charged");                                                          \
        CUresult r;                                                                          \
        TS_ALLOCATE(r, card, cost, real.symbol(array, desc));                                \
        ts_point("array: driver");                                                           \
        return settle_array(card, r, cost, array);                                           \
    }

ARRAY_WRAPPER(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, .Depth = 0)
ARRAY_WRAPPER(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, .Depth = 0)
ARRAY_WRAPPER(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, .Depth = desc->Depth, .Flags = desc->Flags)
ARRAY_WRAPPER(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, .Depth = desc->Depth, .Flags = desc->Flags)

CUresult cuMipmappedArrayCreate(CUmipmappedArray *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels) {
    TS_ENTER(cuMipmappedArrayCreate, (mipmap, desc, levels));
    struct ts_card *card = ts_card_current();
    if (!card || !desc || !mipmap)
        return real.cuMipmappedArrayCreate(mipmap, desc, levels);
    uint64_t cost = all_levels(desc, levels), really = cost;
    if (!ts_memory_ask(card, TESSERA_ARRAY, cost))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r;
    TS_ALLOCATE(r, card, cost, real.cuMipmappedArrayCreate(mipmap, desc, levels));
    CUDA_ARRAY_MEMORY_REQUIREMENTS need = {0};
    if (r == CUDA_SUCCESS && cost && real.cuMipmappedArrayGetMemoryRequirements &&
        real.cuMipmappedArrayGetMemoryRequirements(&need, *mipmap, card->ordinal) == CUDA_SUCCESS && need.size)
        really = need.size;
    struct ts_holding holding = array_holding(card, TS_MIPMAP, r == CUDA_SUCCESS ? *mipmap : NULL, really);
    if (ts_memory_settle(card, r, cost, really, &holding))
        return r;
    real.cuMipmappedArrayDestroy(*mipmap);
    *mipmap = NULL;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuArrayDestroy(CUarray array) {
    TS_ENTER(cuArrayDestroy, (array));
    struct ts_holding holding;
    int known = ts_ledger_take(TS_ARRAY_HANDLE, (uint64_t)(uintptr_t)array, &holding);
    CUresult r = real.cuArrayDestroy(array);
    ts_point("array free: driver");
    if (known && r == CUDA_SUCCESS)
        ts_memory_drop(&holding);
    else if (known)
        ts_ledger_put(&holding);
    return r;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap) {
    TS_ENTER(cuMipmappedArrayDestroy, (mipmap));
    struct ts_holding holding;
    int known = ts_ledger_take(TS_MIPMAP, (uint64_t)(uintptr_t)mipmap, &holding);
    CUresult r = real.cuMipmappedArrayDestroy(mipmap);
    ts_point("mipmap free: driver");
    if (known && r == CUDA_SUCCESS)
        ts_memory_drop(&holding);
    else if (known)
        ts_ledger_put(&holding);
    return r;
}
