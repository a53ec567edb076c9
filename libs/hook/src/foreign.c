/* Memory that others made: IPC handles, shared handles, memory of pools, external memory. Inside one container it
 * is charged where it was made, and here only shown; from elsewhere it is charged here. */
#include "foreign.h"

#include <sys/stat.h>

#include "charge.h"
#include "exports.h"
#include "memory.h"
#include "points.h"
#include "start.h"

/* A descriptor is known by its file. Where the driver's descriptors are all of one file this says
 * only whether this container has exported anything. */
static uint64_t name_of(int fd) {
    struct stat file;
    if (fstat(fd, &file) < 0)
        return 0;
    uint64_t parts[2] = {(uint64_t)file.st_dev, (uint64_t)file.st_ino};
    return ts_export_name(parts, sizeof parts);
}

/* Of a fabric handle the bytes are its name. */
#define FABRIC_BYTES 64
static uint64_t name_of_shareable(const void *shareable, CUmemAllocationHandleType type) {
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return name_of((int)(intptr_t)shareable);
    return type == CU_MEM_HANDLE_TYPE_FABRIC && shareable ? ts_export_name(shareable, FABRIC_BYTES) : 0;
}

void ts_foreign_shown(struct ts_card *card, int64_t bytes) {
    __atomic_add_fetch(&card->mine->imported_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

int ts_foreign_from_elsewhere(void *shareable, CUmemAllocationHandleType type) {
    uint64_t name = name_of_shareable(shareable, type);
    return name && !ts_export_is_ours(name);
}

void ts_foreign_exported(const void *shareable, CUmemAllocationHandleType type) {
    int is_descriptor = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    uint64_t name = name_of_shareable(is_descriptor ? (void *)(intptr_t)*(const int *)shareable : shareable, type);
    if (name)
        ts_export_remember(name);
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
    TS_ENTER(cuMemExportToShareableHandle, (shareable, handle, type, flags));
    CUresult r = real.cuMemExportToShareableHandle(shareable, handle, type, flags);
    if (r == CUDA_SUCCESS)
        ts_foreign_exported(shareable, type);
    return r;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr) {
    TS_ENTER(cuIpcGetMemHandle, (handle, dptr));
    CUresult r = real.cuIpcGetMemHandle(handle, dptr);
    if (r == CUDA_SUCCESS) {
        ts_export_remember(ts_export_name(handle, sizeof *handle));
        ts_ledger_mark_exported(TS_POINTER, dptr);
    }
    return r;
}

/* Only whoever has the data can name the memory, so that is its name, and not the pool's. */
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr) {
    TS_ENTER(cuMemPoolExportPointer, (data, ptr));
    CUresult r = real.cuMemPoolExportPointer(data, ptr);
    if (r == CUDA_SUCCESS) {
        ts_export_remember(ts_export_name(data, sizeof *data));
        ts_ledger_mark_exported(TS_ASYNC, ptr);
    }
    return r;
}

void ts_foreign_freed(const struct ts_holding *holding) {
    CUipcMemHandle handle;
    CUmemPoolPtrExportData data;
    if (holding->thing == TS_POINTER && real.cuIpcGetMemHandle &&
        real.cuIpcGetMemHandle(&handle, holding->key) == CUDA_SUCCESS)
        ts_export_forget(ts_export_name(&handle, sizeof handle));
    else if (holding->thing == TS_ASYNC && real.cuMemPoolExportPointer &&
             real.cuMemPoolExportPointer(&data, holding->key) == CUDA_SUCCESS)
        ts_export_forget(ts_export_name(&data, sizeof data));
}

/* Its size is known once it is open: what does not fit is closed again. */
static CUresult opened(enum ts_thing thing, struct ts_card *card, CUdeviceptr at, int from_here,
                       CUresult (*close_again)(CUdeviceptr)) {
    struct ts_holding now;
    CUdeviceptr base;
    size_t bytes = 0;
    if (!card || ts_ledger_count(thing, at, 1, 0, &now)) /* opened before */
        return CUDA_SUCCESS;
    if (!real.cuMemGetAddressRange_v2 || real.cuMemGetAddressRange_v2(&base, &bytes, at) != CUDA_SUCCESS)
        return CUDA_SUCCESS;
    struct ts_holding holding = {.key = at, .bytes = ts_memory_pages(bytes), .references = 1, .thing = (uint8_t)thing,
                                 .kind = TESSERA_OTHER, .card = (uint8_t)card->index, .charged = !from_here};
    if (holding.charged && !ts_memory_ask(card, TESSERA_OTHER, holding.bytes)) {
        if (close_again)
            close_again(at);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!holding.charged)
        ts_foreign_shown(card, (int64_t)holding.bytes);
    ts_point("import: charged");
    ts_ledger_put(&holding);
    return CUDA_SUCCESS;
}

#define OPENED(dptr, handle)                                                                                  \
    opened(TS_FOREIGN, ts_card_current(), dptr, ts_export_is_ours(ts_export_name(handle, sizeof *(handle))), \
           real.cuIpcCloseMemHandle)

CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags) {
    TS_ENTER(cuIpcOpenMemHandle, (dptr, handle, flags));
    CUresult r = real.cuIpcOpenMemHandle(dptr, handle, flags);
    return r == CUDA_SUCCESS ? OPENED(*dptr, &handle) : r;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags) {
    TS_ENTER(cuIpcOpenMemHandle_v2, (dptr, handle, flags));
    CUresult r = real.cuIpcOpenMemHandle_v2(dptr, handle, flags);
    return r == CUDA_SUCCESS ? OPENED(*dptr, &handle) : r;
}

/* A pool may be of another card than the current one. */
static struct ts_card *card_of(CUdeviceptr at) {
    int device;
    if (real.cuPointerGetAttribute &&
        real.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) == CUDA_SUCCESS)
        return ts_card_by_device(device);
    return ts_card_current();
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data) {
    TS_ENTER(cuMemPoolImportPointer, (ptr, pool, data));
    uint64_t name = data ? ts_export_name(data, sizeof *data) : 0;
    CUresult r = real.cuMemPoolImportPointer(ptr, pool, data);
    return r == CUDA_SUCCESS ? opened(TS_POOL_IMPORT, card_of(*ptr), *ptr, ts_export_is_ours(name), real.cuMemFree_v2) : r;
}

/* As often freed as imported; the last time, it is given back. */
int ts_foreign_take(CUdeviceptr at, struct ts_holding *out) {
    if (ts_ledger_count(TS_POOL_IMPORT, at, -1, 0, out) != 2)
        return 0;
    out->references = 1; /* should the driver refuse */
    return 1;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr) {
    TS_ENTER(cuIpcCloseMemHandle, (dptr));
    struct ts_holding before = {0}, now;
    int known = ts_ledger_look(TS_FOREIGN, dptr, &before);
    int counted = known ? ts_ledger_count(TS_FOREIGN, dptr, -1, 0, &now) : 0;
    CUresult r = real.cuIpcCloseMemHandle(dptr);
    ts_point("import: closed");
    if (r == CUDA_SUCCESS && counted == 2)
        ts_memory_drop(&now);
    else if (r != CUDA_SUCCESS && counted == 2)
        ts_ledger_put(&before);
    else if (r != CUDA_SUCCESS && counted)
        ts_ledger_count(TS_FOREIGN, dptr, 1, 0, &now);
    return r;
}

/* Made by another API, which nobody counts: charged to whoever imports it. */
CUresult cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc) {
    TS_ENTER(cuImportExternalMemory, (memory, desc));
    struct ts_card *card = ts_card_current();
    if (!card || !memory || !desc || !desc->size)
        return real.cuImportExternalMemory(memory, desc);
    if (!ts_memory_ask(card, TESSERA_OTHER, desc->size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = real.cuImportExternalMemory(memory, desc);
    struct ts_holding holding = {.key = r == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*memory : 0, .bytes = desc->size,
                                 .thing = TS_FOREIGN, .kind = TESSERA_OTHER, .card = (uint8_t)card->index, .charged = 1};
    ts_memory_settle(card, r, desc->size, desc->size, &holding);
    return r;
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
    TS_ENTER(cuDestroyExternalMemory, (memory));
    struct ts_holding holding;
    int known = ts_ledger_take(TS_FOREIGN, (uint64_t)(uintptr_t)memory, &holding);
    CUresult r = real.cuDestroyExternalMemory(memory);
    if (known && r == CUDA_SUCCESS)
        ts_memory_drop(&holding);
    else if (known)
        ts_ledger_put(&holding);
    return r;
}
