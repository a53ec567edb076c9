/* Arrays and mipmapped arrays: true sizes. Rows are padded to 64 bytes and the whole to 512 (assumed; the real padding depends on
 * the card's tiling). A height or depth of 0 counts as 1; a cubemap or layered array has Depth layers. */
#include "driver.h"

struct CUarray_st {
    uint32_t magic, card;
    CUcontext ctx;
    uint64_t ctx_id;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    uint64_t held; /* 0: a level of a mipmapped array */
};

struct CUmipmappedArray_st {
    uint32_t magic, card;
    CUcontext ctx;
    uint64_t ctx_id;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    unsigned levels;
    uint64_t held;
    struct CUarray_st level[32];
};

static unsigned element_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
    }
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned level)
{
    bool layers = d->Flags & CUDA_ARRAY3D_LAYERED || d->Flags & CUDA_ARRAY3D_CUBEMAP;
    uint64_t w = d->Width >> level, h = d->Height >> level, z = layers ? d->Depth : d->Depth >> level;
    uint64_t row = ((w ? w : 1) * element_bytes(d->Format) * d->NumChannels + 63) / 64 * 64;
    return row * (h ? h : 1) * (z ? z : 1);
}

static uint64_t total_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < levels; i++)
        sum += level_bytes(d, i);
    return (sum + 511) / 512 * 512;
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *d, CUcontext *ctx)
{
    CUresult r = sim_current(ctx);
    if (r)
        return r;
    bool channels = d && (d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4);
    if (!channels || !d->Width || !element_bytes(d->Format))
        return CUDA_ERROR_INVALID_VALUE;
    if (d->Width > 1u << 20 || d->Height > 1u << 17 || d->Depth > 1u << 16)
        return CUDA_ERROR_INVALID_VALUE; /* beyond any card's limits, and far from overflowing */
    return sim_unsafe();
}

static CUresult take(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels, CUcontext ctx, uint64_t *held)
{
    *held = d->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING ? 0 : total_bytes(d, levels);
    return sim_context_charge(ctx, *held) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    CUcontext ctx;
    uint64_t held = 0;
    CUresult r = check(desc, &ctx);
    if (r)
        return r;
    NEED(array);
    CUarray a = sim_object_new(SIM_ARRAY, sizeof *a);
    if (!a || (r = take(desc, 1, ctx, &held))) {
        if (a)
            sim_object_free(a, sizeof *a);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    a->card = ctx->card;
    a->ctx = ctx;
    a->ctx_id = ctx->id;
    a->desc = *desc;
    a->held = held;
    *array = a;
    return CUDA_SUCCESS;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    if (!desc)
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full = {.Width = desc->Width, .Height = desc->Height, .Format = desc->Format, .NumChannels = desc->NumChannels};
    return cuArray3DCreate_v2(array, &full);
}

CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
    if (!desc)
        return cuArrayCreate_v2(array, NULL);
    CUDA_ARRAY_DESCRIPTOR wide = {desc->Width, desc->Height, desc->Format, desc->NumChannels};
    return cuArrayCreate_v2(array, &wide);
}

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
    if (!desc)
        return cuArray3DCreate_v2(array, NULL);
    CUDA_ARRAY3D_DESCRIPTOR wide = {desc->Width, desc->Height, desc->Depth, desc->Format, desc->NumChannels, desc->Flags};
    return cuArray3DCreate_v2(array, &wide);
}

#define ALIVE(object, what) \
    ENTER();                \
    if (!(object) || (object)->magic != (what)) \
    return CUDA_ERROR_INVALID_HANDLE

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray array)
{
    ALIVE(array, SIM_ARRAY);
    NEED(desc);
    *desc = array->desc;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *desc, CUarray array)
{
    ALIVE(array, SIM_ARRAY);
    NEED(desc);
    *desc = (CUDA_ARRAY_DESCRIPTOR){array->desc.Width, array->desc.Height, array->desc.Format, array->desc.NumChannels};
    return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray array)
{
    ALIVE(array, SIM_ARRAY);
    CUresult r = sim_unsafe();
    if (r)
        return r;
    sim_context_uncharge(array->ctx, array->ctx_id, array->held);
    sim_object_free(array, sizeof *array);
    return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray array, CUdevice dev)
{
    uint32_t card;
    ALIVE(array, SIM_ARRAY);
    NEED(requirements);
    *requirements = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = total_bytes(&array->desc, 1), .alignment = 512};
    return sim_card_of(dev, &card);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
    CUcontext ctx;
    uint64_t held = 0;
    unsigned most = 1;
    CUresult r = check(desc, &ctx);
    if (r)
        return r;
    for (size_t side = desc->Width > desc->Height ? desc->Width : desc->Height; side > 1; side >>= 1)
        most++;
    if (!mipmap || !levels)
        return CUDA_ERROR_INVALID_VALUE;
    levels = levels < most ? levels : most;
    CUmipmappedArray m = sim_object_new(SIM_MIPMAP, sizeof *m);
    if (!m || (r = take(desc, levels, ctx, &held))) {
        if (m)
            sim_object_free(m, sizeof *m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->card = ctx->card;
    m->ctx = ctx;
    m->ctx_id = ctx->id;
    m->desc = *desc;
    m->levels = levels;
    m->held = held;
    *mipmap = m;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmap, unsigned int level)
{
    ALIVE(mipmap, SIM_MIPMAP);
    if (!array || level >= mipmap->levels)
        return CUDA_ERROR_INVALID_VALUE;
    CUarray a = &mipmap->level[level];
    a->magic = SIM_ARRAY;
    a->card = mipmap->card;
    a->desc = mipmap->desc;
    a->desc.Width = mipmap->desc.Width >> level ? mipmap->desc.Width >> level : 1;
    a->desc.Height = mipmap->desc.Height >> level;
    *array = a;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
    ALIVE(mipmap, SIM_MIPMAP);
    CUresult r = sim_unsafe();
    if (r)
        return r;
    sim_context_uncharge(mipmap->ctx, mipmap->ctx_id, mipmap->held);
    sim_object_free(mipmap, sizeof *mipmap);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUmipmappedArray mipmap, CUdevice dev)
{
    uint32_t card;
    ALIVE(mipmap, SIM_MIPMAP);
    NEED(requirements);
    *requirements = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = total_bytes(&mipmap->desc, mipmap->levels), .alignment = 512};
    return sim_card_of(dev, &card);
}
