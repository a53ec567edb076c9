/* Memory of another process: legacy IPC handles and external memory. The exporter's bytes become a block that both hold. */
#include "driver.h"

#include <string.h>
#include <unistd.h>

typedef struct {
    uint64_t magic, generation, size;
    uint32_t block, pid;
    uint64_t space;
} IpcHandle;

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
    IpcHandle h = {.magic = SIM_MAGIC, .pid = (uint32_t)getpid(), .space = sim_pid_space()};
    CUresult r = CUDA_SUCCESS;
    ENTER();
    NEED(handle);
    sim_local_lock();
    Range *range = sim_range_at(dptr);
    if (!range || range->kind != RANGE_DEVICE)
        r = CUDA_ERROR_INVALID_VALUE; /* neither pool, VMM nor managed memory can be shared this way */
    else if (range->block == SIM_NONE && !(r = sim_alone(range))) {
        range->block = sim_block_share(range->card, range->held, &range->generation);
        if (range->block == SIM_NONE)
            r = CUDA_ERROR_OUT_OF_MEMORY;
        else
            sim_block_data(range->block, range->size, &range->data);
    }
    if (!r) {
        h.block = range->block;
        h.generation = range->generation;
        h.size = range->size;
        memset(handle, 0, sizeof *handle);
        memcpy(handle, &h, sizeof h);
    }
    sim_local_unlock();
    return r;
}

static Range *wanted;
static void find_open(Range *range, void *arg)
{
    const IpcHandle *h = arg;
    if (range->kind == RANGE_IPC && range->block == h->block && range->generation == h->generation)
        wanted = range;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
    CUcontext ctx;
    IpcHandle h;
    uint32_t card;
    uint64_t bytes;
    CUresult r = sim_current(&ctx);
    if (r)
        return r;
    memcpy(&h, &handle, sizeof h);
    if (!dptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || h.magic != SIM_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (h.pid == (uint32_t)getpid() && h.space == sim_pid_space())
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_local_lock();
    wanted = NULL;
    sim_ranges_walk(find_open, &h);
    if (wanted) {
        wanted->opened++;
        *dptr = wanted->base;
    } else if (!sim_block_hold(h.block, h.generation, &card, &bytes)) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else {
        CUdeviceptr base = sim_va_take(h.size, SIM_GRANULE, false);
        Range *range = base ? sim_range_new(RANGE_IPC, base, h.size) : NULL;
        if (!range) {
            sim_block_drop(h.block);
            r = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            range->ctx = ctx;
            range->card = card;
            range->block = h.block;
            range->generation = h.generation;
            range->opened = 1;
            sim_block_data(h.block, h.size, &range->data);
            *dptr = base;
        }
    }
    sim_local_unlock();
    return r;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags) { return cuIpcOpenMemHandle_v2(dptr, handle, flags); }

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    ENTER();
    sim_local_lock();
    Range *range = sim_range_at(dptr);
    bool open = range && range->kind == RANGE_IPC && range->base == dptr;
    if (open && --range->opened == 0)
        sim_forget_range(range);
    sim_local_unlock();
    return open ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct CUextMemory_st {
    uint32_t magic, card;
    uint64_t size;
};

/* External memory is another API's (Vulkan, say): it is on some card already and costs nothing again. */
CUresult cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    CUcontext ctx;
    CUresult r = sim_current(&ctx);
    if (r)
        return r;
    if (!memory || !desc || !desc->size || desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return CUDA_ERROR_INVALID_VALUE;
    CUexternalMemory m = sim_object_new(SIM_EXTERNAL, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->card = ctx->card;
    m->size = desc->size;
    *memory = m;
    return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *dptr, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    ENTER();
    if (!dptr || !desc || !desc->size || !memory || memory->magic != SIM_EXTERNAL || desc->offset > memory->size || desc->size > memory->size - desc->offset)
        return CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    CUdeviceptr base = sim_va_take(desc->size, SIM_GRANULE, false);
    Range *range = base ? sim_range_new(RANGE_EXTERNAL, base, desc->size) : NULL;
    if (range)
        range->card = memory->card;
    sim_local_unlock();
    *dptr = base;
    return range ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    ENTER();
    if (!memory || memory->magic != SIM_EXTERNAL)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_object_free(memory, sizeof *memory);
    return CUDA_SUCCESS;
}
