/* Pools shared with other processes. The exporter's pool holds the memory; an importer has addresses of it, and cannot allocate there.
 * Simplified: contents are not shared, and nothing keeps the memory when the exporter frees it first (undefined on a real driver). */
#include "driver.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    uint64_t magic;
    uint32_t card, pid;
} SharedPool;

typedef struct {
    uint64_t magic, size, id;
    uint32_t card, pid;
} SharedPointer;

static bool shared(CUmemoryPool pool)
{
    return pool && pool->magic == SIM_POOL && !pool->destroyed && !pool->imported && !pool->host &&
           (pool->props.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

CUresult cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags)
{
    ENTER();
    if (!shareable || !shared(pool) || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    SharedPool text = {SIM_MAGIC, pool->card, (uint32_t)getpid()};
    int fd = memfd_create("tessera-sim-pool", MFD_CLOEXEC);
    if (fd < 0 || write(fd, &text, sizeof text) != (ssize_t)sizeof text)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)shareable = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable, CUmemAllocationHandleType type, unsigned long long flags)
{
    SharedPool text;
    ENTER();
    if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        pread((int)(intptr_t)shareable, &text, sizeof text, 0) != (ssize_t)sizeof text || text.magic != SIM_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    CUmemoryPool p = sim_object_new(SIM_POOL, sizeof *p);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->card = text.card;
    p->imported = true;
    p->props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p->props.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, sim_device_of_card(text.card)};
    *pool = p;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr)
{
    ENTER();
    NEED(data);
    sim_local_lock();
    Range *range = sim_range_at(ptr);
    bool one = range && range->base == ptr && range->kind == RANGE_POOL && shared(range->pool);
    SharedPointer text = {SIM_MAGIC, one ? range->size : 0, one ? range->id : 0, one ? range->card : 0, (uint32_t)getpid()};
    sim_local_unlock();
    if (!one)
        return CUDA_ERROR_INVALID_VALUE;
    memset(data, 0, sizeof *data);
    memcpy(data, &text, sizeof text);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    SharedPointer text;
    ENTER();
    if (!ptr || !data || !pool || pool->magic != SIM_POOL || pool->destroyed || !pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&text, data, sizeof text);
    if (text.magic != SIM_MAGIC || text.card != pool->card)
        return CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    CUdeviceptr base = sim_va_take(text.size, 512, false);
    Range *range = base ? sim_range_new(RANGE_IMPORTED, base, text.size) : NULL;
    if (range)
        range->card = text.card;
    sim_local_unlock();
    *ptr = base;
    return range ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
