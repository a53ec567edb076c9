/* Memory that others made: IPC handles, shared handles, external memory. Inside one container it is
 * charged where it was made, and here only shown; from elsewhere it is charged here. The usage file
 * remembers what the container exported. */
#include "foreign.h"

#include <string.h>
#include <sys/stat.h>

#include "charge.h"
#include "memory.h"
#include "points.h"
#include "start.h"
#include "usage_map.h"

#define PROBES 8u

static uint64_t digest(const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    return h ? h : 1;
}

static void remember(uint64_t name) {
    uint64_t *table = ts_usage()->exported;
    for (uint32_t i = 0; i < PROBES; i++) {
        uint64_t *at = &table[(name + i) % TESSERA_EXPORTS], there = 0;
        if (__atomic_compare_exchange_n(at, &there, name, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) || there == name)
            return;
    }
    __atomic_store_n(&table[name % TESSERA_EXPORTS], name, __ATOMIC_RELAXED); /* an old one is forgotten */
}

static int is_ours(uint64_t name) {
    const uint64_t *table = ts_usage()->exported;
    for (uint32_t i = 0; i < PROBES; i++)
        if (__atomic_load_n(&table[(name + i) % TESSERA_EXPORTS], __ATOMIC_RELAXED) == name)
            return 1;
    return 0;
}

/* A descriptor is known by its file. Where the driver's descriptors are all of one file this says
 * only whether this container has exported anything. */
static uint64_t name_of(int fd) {
    struct stat file;
    if (fstat(fd, &file) < 0)
        return 0;
    uint64_t parts[2] = {(uint64_t)file.st_dev, (uint64_t)file.st_ino};
    return digest(parts, sizeof parts);
}

void ts_foreign_shown(struct ts_card *card, int64_t bytes) {
    __atomic_add_fetch(&card->mine->imported_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

int ts_foreign_from_elsewhere(void *shareable, CUmemAllocationHandleType type) {
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return 0;
    uint64_t name = name_of((int)(intptr_t)shareable);
    return name && !is_ours(name);
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
    TS_ENTER(cuMemExportToShareableHandle, (shareable, handle, type, flags));
    CUresult r = real.cuMemExportToShareableHandle(shareable, handle, type, flags);
    uint64_t name =
        r == CUDA_SUCCESS && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? name_of(*(int *)shareable) : 0;
    if (name)
        remember(name);
    return r;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr) {
    TS_ENTER(cuIpcGetMemHandle, (handle, dptr));
    CUresult r = real.cuIpcGetMemHandle(handle, dptr);
    if (r == CUDA_SUCCESS)
        remember(digest(handle, sizeof *handle));
    return r;
}

/* Its size is known once it is open: what does not fit is closed again. */
static CUresult opened(CUdeviceptr *dptr, const CUipcMemHandle *handle) {
    struct ts_holding now;
    struct ts_card *card = ts_card_current();
    CUdeviceptr base;
    size_t bytes = 0;
    if (!card || ts_ledger_count(TS_FOREIGN, *dptr, 1, 0, &now)) /* opened before */
        return CUDA_SUCCESS;
    if (!real.cuMemGetAddressRange_v2 || real.cuMemGetAddressRange_v2(&base, &bytes, *dptr) != CUDA_SUCCESS)
        return CUDA_SUCCESS;
    struct ts_holding holding = {.key = *dptr, .bytes = ts_memory_round(bytes), .references = 1, .thing = TS_FOREIGN,
                                 .kind = TESSERA_OTHER, .card = (uint8_t)card->index,
                                 .charged = !is_ours(digest(handle, sizeof *handle))};
    if (holding.charged && !ts_memory_ask(card, TESSERA_OTHER, holding.bytes)) {
        if (real.cuIpcCloseMemHandle)
            real.cuIpcCloseMemHandle(*dptr);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!holding.charged)
        ts_foreign_shown(card, (int64_t)holding.bytes);
    ts_point("import: charged");
    ts_ledger_put(&holding);
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags) {
    TS_ENTER(cuIpcOpenMemHandle, (dptr, handle, flags));
    CUresult r = real.cuIpcOpenMemHandle(dptr, handle, flags);
    return r == CUDA_SUCCESS ? opened(dptr, &handle) : r;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags) {
    TS_ENTER(cuIpcOpenMemHandle_v2, (dptr, handle, flags));
    CUresult r = real.cuIpcOpenMemHandle_v2(dptr, handle, flags);
    return r == CUDA_SUCCESS ? opened(dptr, &handle) : r;
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
