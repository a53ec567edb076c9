/* Multicast objects: addresses behind which memory of several cards is bound. With multicast=1; cards without the switch refuse. What is
 * bound stays on its card until it is unbound or the object goes, whoever released its handle (contents are not simulated). */
#include "driver.h"

#include <stdlib.h>

typedef struct Binding {
    Phys *object, *memory;
    size_t offset, size;
    struct Binding *next;
} Binding;
static Binding *bindings; /* local lock */

static CUresult check(const CUmulticastObjectProp *prop)
{
    ENTER();
    if (!sim->config.multicast)
        return CUDA_ERROR_NOT_SUPPORTED;
    return prop && prop->numDevices && (int)prop->numDevices <= sim_device_count() && prop->size && prop->size % SIM_GRANULE == 0 && !prop->flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop, CUmulticastGranularity_flags option)
{
    CUresult r = check(prop);
    (void)option;
    if (r)
        return r;
    NEED(granularity);
    *granularity = SIM_GRANULE;
    return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *prop)
{
    CUresult r = check(prop);
    if (r)
        return r;
    NEED(handle);
    Phys *object = sim_object_new(SIM_PHYS, sizeof *object);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    object->host = true; /* takes nothing of any card */
    object->devices = prop->numDevices;
    object->bytes = prop->size;
    object->handles = 1;
    object->block = SIM_NONE;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)object;
    return CUDA_SUCCESS;
}

static Phys *object_of(CUmemGenericAllocationHandle handle) /* local lock held */
{
    Phys *object = sim_phys(handle);
    return object && object->devices ? object : NULL;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice dev)
{
    uint32_t card;
    ENTER();
    sim_local_lock();
    Phys *object = object_of(handle);
    sim_local_unlock();
    return object ? sim_card_of(dev, &card) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult bind(CUmemGenericAllocationHandle handle, size_t offset, Phys *memory, size_t memory_offset, size_t size, unsigned long long flags) /* local lock held */
{
    Phys *object = object_of(handle);
    if (!object || !memory || memory->devices || flags || !size || size % SIM_GRANULE || offset > object->bytes || size > object->bytes - offset ||
        memory_offset > memory->bytes || size > memory->bytes - memory_offset)
        return CUDA_ERROR_INVALID_VALUE;
    Binding *b = malloc(sizeof *b);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *b = (Binding){object, memory, offset, size, bindings};
    bindings = b;
    memory->maps++;
    return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset, CUmemGenericAllocationHandle memory, size_t memory_offset, size_t size, unsigned long long flags)
{
    ENTER();
    sim_local_lock();
    CUresult r = bind(handle, offset, sim_phys(memory), memory_offset, size, flags);
    sim_local_unlock();
    return r;
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle handle, CUdevice dev, size_t offset, CUmemGenericAllocationHandle memory, size_t memory_offset, size_t size, unsigned long long flags)
{
    (void)dev;
    return cuMulticastBindMem(handle, offset, memory, memory_offset, size, flags);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr address, size_t size, unsigned long long flags)
{
    ENTER();
    sim_local_lock();
    Range *range = sim_range_at(address);
    bool mapped = range && range->kind == RANGE_MAPPED;
    CUresult r = mapped ? bind(handle, offset, range->phys, range->phys_offset + (address - range->base), size, flags) : CUDA_ERROR_INVALID_VALUE;
    sim_local_unlock();
    return r;
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle handle, CUdevice dev, size_t offset, CUdeviceptr address, size_t size, unsigned long long flags)
{
    (void)dev;
    return cuMulticastBindAddr(handle, offset, address, size, flags);
}

static bool unbind(Phys *object, uint32_t card, size_t offset, size_t size) /* SIM_NONE: of any card; local lock held */
{
    bool found = false;
    for (Binding **at = &bindings; *at;) {
        Binding *b = *at;
        if (b->object != object || (card != SIM_NONE && b->memory->card != card) || b->offset < offset || b->offset - offset >= size) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        b->memory->maps--;
        sim_phys_let_go(b->memory);
        free(b);
        found = true;
    }
    return found;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice dev, size_t offset, size_t size)
{
    uint32_t card;
    ENTER();
    CUresult r = sim_card_of(dev, &card);
    if (r)
        return r;
    sim_local_lock();
    Phys *object = object_of(handle);
    bool found = object && unbind(object, card, offset, size);
    sim_local_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void sim_multicast_forget(Phys *object) { unbind(object, SIM_NONE, 0, SIZE_MAX); }
