/* Host memory known to the driver: pinned, registered, managed. Pinned memory is no device memory and costs the card nothing. */
#include "driver.h"

#include <sys/mman.h>

static CUresult host_pages(CUdeviceptr *out, size_t bytes, RangeKind kind, unsigned flags)
{
    CUcontext ctx;
    CUresult r = sim_current(&ctx);
    if (r)
        return r;
    if (!out || !bytes || bytes > UINT64_C(1) << 46)
        return bytes && out ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    if ((r = sim_unsafe()))
        return r;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_local_lock();
    Range *range = sim_range_new(kind, (CUdeviceptr)(uintptr_t)p, bytes);
    if (range) {
        range->ctx = ctx;
        range->card = ctx->card;
        range->flags = flags;
    }
    sim_local_unlock();
    if (!range) {
        munmap(p, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

/* Managed memory is on the card only where it was prefetched to (assumed: kernels and their faults are not simulated). */
CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    return host_pages(dptr, bytes, RANGE_MANAGED, flags);
}

CUresult cuMemHostAlloc(void **pp, size_t bytes, unsigned int flags)
{
    CUdeviceptr p = 0;
    CUresult r = host_pages(pp ? &p : NULL, bytes, RANGE_HOST, flags);
    if (!r)
        *pp = (void *)(uintptr_t)p;
    return r;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytes) { return cuMemHostAlloc(pp, bytes, 0); }

static CUresult forget(void *p, RangeKind kind, CUresult unknown)
{
    CUresult r = sim_unsafe();
    if (r)
        return r;
    sim_local_lock();
    Range *range = sim_range_at((CUdeviceptr)(uintptr_t)p);
    if (!range || range->kind != kind || range->base != (CUdeviceptr)(uintptr_t)p)
        r = unknown;
    else
        sim_forget_range(range);
    sim_local_unlock();
    return r;
}

CUresult cuMemFreeHost(void *p)
{
    ENTER();
    return p ? forget(p, RANGE_HOST, CUDA_ERROR_INVALID_VALUE) : CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
    CUcontext ctx;
    CUresult r = sim_current(&ctx);
    if (r)
        return r;
    if (!p || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    Range *range = sim_range_new(RANGE_REGISTERED, (CUdeviceptr)(uintptr_t)p, bytes);
    if (range) {
        range->ctx = ctx;
        range->flags = flags;
    }
    sim_local_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags) { return cuMemHostRegister_v2(p, bytes, flags); }

CUresult cuMemHostUnregister(void *p)
{
    ENTER();
    return forget(p, RANGE_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *p, unsigned int flags)
{
    ENTER();
    if (!dptr || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    Range *range = sim_range_at((CUdeviceptr)(uintptr_t)p);
    bool host = range && (range->kind == RANGE_HOST || range->kind == RANGE_REGISTERED);
    sim_local_unlock();
    *dptr = host ? (CUdeviceptr)(uintptr_t)p : 0; /* unified addressing */
    return host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *p)
{
    ENTER();
    NEED(flags);
    sim_local_lock();
    Range *range = sim_range_at((CUdeviceptr)(uintptr_t)p);
    bool host = range && range->kind == RANGE_HOST;
    *flags = host ? range->flags | CU_MEMHOSTALLOC_DEVICEMAP : 0;
    sim_local_unlock();
    return host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult prefetch(CUdeviceptr dptr, size_t count, bool to_card, CUdevice device, CUstream stream)
{
    uint32_t card = 0;
    CUstream s;
    CUresult r = sim_stream(stream, &s);
    if (!r && to_card)
        r = sim_card_of(device, &card);
    if (r)
        return r;
    sim_local_lock();
    Range *range = sim_range_at(dptr);
    if (!range || range->kind != RANGE_MANAGED || !count || count > range->base + range->size - dptr) {
        sim_local_unlock();
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (range->resident && (!to_card || range->card != card)) {
        sim_give(range->card, range->resident);
        range->resident = 0;
    }
    if (to_card && count > range->resident) { /* a full card takes as much as fits: managed memory may be larger than the card */
        uint64_t used, more = count - range->resident;
        sim_used(card, &used);
        uint64_t room = (sim_capacity(card) - used) / SIM_GRANULE * SIM_GRANULE;
        more = more < room ? more : room;
        range->card = card;
        if (more && sim_take(card, more))
            range->resident += more;
    }
    sim_local_unlock();
    return sim_enqueue_nothing(s);
}

CUresult cuMemPrefetchAsync(CUdeviceptr dptr, size_t count, CUdevice dst, CUstream stream)
{
    return prefetch(dptr, count, dst != CU_DEVICE_CPU, dst, stream);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr dptr, size_t count, CUmemLocation location, unsigned int flags, CUstream stream)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return prefetch(dptr, count, location.type == CU_MEM_LOCATION_TYPE_DEVICE, location.id, stream);
}

static CUresult managed(CUdeviceptr dptr)
{
    ENTER();
    sim_local_lock();
    Range *range = sim_range_at(dptr);
    bool yes = range && range->kind == RANGE_MANAGED;
    sim_local_unlock();
    return yes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAdvise(CUdeviceptr dptr, size_t count, CUmem_advise advice, CUdevice device)
{
    (void)device;
    return advice < 1 || advice > 6 || !count ? CUDA_ERROR_INVALID_VALUE : managed(dptr);
}

CUresult cuMemAdvise_v2(CUdeviceptr dptr, size_t count, CUmem_advise advice, CUmemLocation location)
{
    return cuMemAdvise(dptr, count, advice, location.id);
}

CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr dptr, size_t count)
{
    CUresult r = managed(dptr);
    if (r || !data || size < sizeof(int) || !count)
        return r ? r : CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    Range *range = sim_range_at(dptr);
    int value = attribute == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ? 0 : CU_DEVICE_INVALID;
    if (range && attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION && range->resident)
        value = sim_device_of_card(range->card);
    sim_local_unlock();
    *(int *)data = value;
    return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
    (void)stream, (void)length, (void)flags;
    return managed(dptr);
}
