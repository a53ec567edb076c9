/* Pointer attributes. */
#include "driver.h"

static bool on_host(const Range *r) { return r->kind == RANGE_HOST || r->kind == RANGE_REGISTERED; }

/* NULL range: memory the driver does not know. */
static CUresult attribute_of(const Range *r, CUpointer_attribute attribute, CUdeviceptr ptr, void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = r->kind == RANGE_MAPPED || r->kind == RANGE_POOL ? NULL : r->ctx; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)data = on_host(r) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = ptr; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!on_host(r) && r->kind != RANGE_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)ptr;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)data = r->id; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = r->kind == RANGE_MANAGED; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = sim_device_of_card(r->card); break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(unsigned *)data = r->kind == RANGE_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = r->base; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = r->size; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)data = 1; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(unsigned long long *)data = r->kind == RANGE_MAPPED ? (unsigned)r->phys->prop.requestedHandleTypes : 0; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(unsigned *)data = r->kind == RANGE_MAPPED ? r->access : CU_MEM_ACCESS_FLAGS_PROT_READWRITE; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)data = r->pool; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    ENTER();
    NEED(data);
    sim_local_lock();
    Range *r = sim_range_at(ptr);
    CUresult result = r ? attribute_of(r, attribute, ptr, data) : CUDA_ERROR_INVALID_VALUE;
    sim_local_unlock();
    return result;
}

/* Unlike the single query this one succeeds for unknown memory and answers zeros. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
    ENTER();
    if (!count || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    Range *r = sim_range_at(ptr);
    for (unsigned i = 0; i < count; i++) {
        if (r && attribute_of(r, attributes[i], ptr, data[i]) == CUDA_SUCCESS)
            continue;
        bool wide = attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT || attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER || attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
        if (wide)
            *(uint64_t *)data[i] = 0;
        else
            *(int *)data[i] = attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? CU_DEVICE_INVALID : 0;
    }
    sim_local_unlock();
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    ENTER();
    NEED(value);
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    Range *r = sim_range_at(ptr);
    sim_local_unlock();
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
