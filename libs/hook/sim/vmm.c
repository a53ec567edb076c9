/* Virtual memory management: addresses, physical allocations and mappings, each with its own life. Physical memory goes back with
 * the last handle AND the last mapping, whichever is later. */
#include "driver.h"

#include <stdlib.h>
#include <sys/mman.h>

typedef struct Reservation {
    CUdeviceptr base;
    size_t size;
    struct Reservation *next;
} Reservation;
static Reservation *reservations;

static Reservation **reserved_around(CUdeviceptr ptr, size_t size)
{
    for (Reservation **at = &reservations; *at; at = &(*at)->next)
        if (ptr >= (*at)->base && size <= (*at)->size && ptr - (*at)->base <= (*at)->size - size)
            return at;
    return NULL;
}

/* The address asked for is only a wish, and one that is not granted here. */
CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
    ENTER();
    (void)addr;
    if (!ptr || !size || size % SIM_GRANULE || flags || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    Reservation *r = malloc(sizeof *r);
    if (!r)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_local_lock();
    r->base = sim_va_take(size, alignment > SIM_GRANULE ? alignment : SIM_GRANULE, false);
    r->size = size;
    if (r->base) {
        r->next = reservations;
        reservations = r;
        *ptr = r->base;
    }
    sim_local_unlock();
    if (!r->base) {
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

typedef struct {
    CUdeviceptr base;
    size_t size;
    bool found;
} Overlap;

static void overlaps(Range *range, void *arg)
{
    Overlap *o = arg;
    o->found = o->found || (range->base < o->base + o->size && o->base < range->base + range->size);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    ENTER();
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    Reservation **at = reserved_around(ptr, size);
    Overlap o = {.base = ptr, .size = size};
    if (at && (*at)->base == ptr && (*at)->size == size) {
        sim_ranges_walk(overlaps, &o); /* still mapped: refused */
        if (!o.found) {
            Reservation *r = *at;
            *at = r->next;
            free(r);
            sim_va_give(ptr, size);
            result = CUDA_SUCCESS;
        }
    }
    sim_local_unlock();
    return result;
}

static CUresult check(const CUmemAllocationProp *prop, uint32_t *card, bool *host)
{
    NEED(prop);
    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    *host = prop->location.type == CU_MEM_LOCATION_TYPE_HOST || prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
            prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    if (*host)
        return CUDA_SUCCESS;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_card_of(prop->location.id, card);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
    uint32_t card;
    bool host;
    ENTER();
    if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = SIM_GRANULE;
    return check(prop, &card, &host);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
    uint32_t card = 0;
    bool host = false;
    ENTER();
    if (!handle || !size || size % SIM_GRANULE || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check(prop, &card, &host);
    if (r)
        return r;
    Phys *phys = sim_object_new(SIM_PHYS, sizeof *phys);
    if (!phys)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!host && !sim_take(card, size) && !(sim_pools_shrink(card) && sim_take(card, size))) {
        sim_object_free(phys, sizeof *phys);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    phys->card = card;
    phys->bytes = size;
    phys->host = host;
    phys->handles = 1;
    phys->block = SIM_NONE;
    phys->prop = *prop;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)phys;
    return CUDA_SUCCESS;
}

Phys *sim_phys(CUmemGenericAllocationHandle handle)
{
    Phys *phys = (Phys *)(uintptr_t)handle;
    return phys && phys->magic == SIM_PHYS && phys->handles ? phys : NULL;
}

void sim_phys_let_go(Phys *phys)
{
    if (phys->handles || phys->maps)
        return;
    if (phys->devices)
        sim_multicast_forget(phys);
    if (phys->block != SIM_NONE)
        sim_block_drop(phys->block);
    else if (!phys->host)
        sim_give(phys->card, phys->bytes);
    if (phys->data)
        munmap(phys->data, phys->bytes);
    sim_object_free(phys, sizeof *phys);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER();
    sim_local_lock();
    Phys *phys = sim_phys(handle);
    if (phys) {
        phys->handles--;
        sim_phys_let_go(phys);
    }
    sim_local_unlock();
    return phys ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    ENTER();
    NEED(handle);
    sim_local_lock();
    Range *range = sim_range_at((CUdeviceptr)(uintptr_t)addr);
    bool mapped = range && range->kind == RANGE_MAPPED;
    if (mapped) {
        range->phys->handles++;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)range->phys;
    }
    sim_local_unlock();
    return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    ENTER();
    Phys *phys = sim_phys(handle);
    if (!prop || !phys)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = phys->prop;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    ENTER();
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    Phys *phys = sim_phys(handle);
    if (phys && !flags && size && size % SIM_GRANULE == 0 && ptr % SIM_GRANULE == 0 && offset <= phys->bytes && size <= phys->bytes - offset && reserved_around(ptr, size)) {
        Range *range = sim_range_new(RANGE_MAPPED, ptr, size); /* NULL: something is mapped there already */
        if (range) {
            range->card = phys->card;
            range->phys = phys;
            range->phys_offset = offset;
            phys->maps++;
            result = CUDA_SUCCESS;
        }
    }
    sim_local_unlock();
    return result;
}

/* The range must be made of whole mappings. */
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    ENTER();
    CUresult result = CUDA_SUCCESS;
    sim_local_lock();
    for (CUdeviceptr p = ptr; p < ptr + size && !result;) {
        Range *range = sim_range_at(p);
        if (!range || range->kind != RANGE_MAPPED || range->base != p || range->size > ptr + size - p)
            result = CUDA_ERROR_INVALID_VALUE;
        else
            p += range->size;
    }
    for (CUdeviceptr p = ptr; p < ptr + size && !result;) {
        Range *range = sim_range_at(p);
        Phys *phys = range->phys;
        p += range->size;
        sim_range_delete(range);
        phys->maps--;
        sim_phys_let_go(phys);
    }
    sim_local_unlock();
    return size ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    ENTER();
    CUresult result = desc && count && size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    for (CUdeviceptr p = ptr; !result && p < ptr + size;) {
        Range *range = sim_range_at(p);
        if (!range || range->kind != RANGE_MAPPED) {
            result = CUDA_ERROR_INVALID_VALUE;
        } else {
            range->access = desc[0].flags;
            p = range->base + range->size;
        }
    }
    sim_local_unlock();
    return result;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    ENTER();
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    Range *range = sim_range_at(ptr);
    bool mapped = range && range->kind == RANGE_MAPPED;
    *flags = mapped ? range->access : 0;
    sim_local_unlock();
    return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
