/* VMM memory given to another process by file descriptor. */
#include "driver.h"

#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    uint64_t magic, generation;
    uint32_t block, reserved;
} Shareable;

/* The descriptor names the memory; unlike the real one it does not keep it alive by itself (assumed harmless: some holder is left). */
CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags)
{
    ENTER();
    Phys *phys = sim_phys(handle);
    if (!shareable || !phys || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !(phys->prop.requestedHandleTypes & type) || phys->host)
        return CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    if (phys->block == SIM_NONE) {
        phys->block = sim_block_share(phys->card, phys->bytes, &phys->generation);
        if (phys->block != SIM_NONE)
            sim_block_data(phys->block, phys->bytes, &phys->data);
    }
    Shareable text = {SIM_MAGIC, phys->generation, phys->block, 0};
    sim_local_unlock();
    int fd = memfd_create("tessera-sim-memory", MFD_CLOEXEC);
    if (fd < 0 || text.block == SIM_NONE || write(fd, &text, sizeof text) != (ssize_t)sizeof text)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)shareable = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable, CUmemAllocationHandleType type)
{
    Shareable text;
    ENTER();
    NEED(handle);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || pread((int)(intptr_t)shareable, &text, sizeof text, 0) != (ssize_t)sizeof text || text.magic != SIM_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    Phys *phys = sim_object_new(SIM_PHYS, sizeof *phys);
    if (!phys)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!sim_block_hold(text.block, text.generation, &phys->card, &phys->bytes)) {
        sim_object_free(phys, sizeof *phys);
        return CUDA_ERROR_INVALID_VALUE;
    }
    phys->handles = 1;
    phys->block = text.block;
    phys->generation = text.generation;
    phys->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    phys->prop.requestedHandleTypes = type;
    phys->prop.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, sim_device_of_card(phys->card)};
    sim_block_data(phys->block, phys->bytes, &phys->data);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)phys;
    return CUDA_SUCCESS;
}
