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

/* What was exported is known by a print of 16 bits, in one of two rows that its name chooses: a table of
 * 3,584 bytes holds 1,792 of them, and takes one in 4,000 of another container's for one of its own. */
#define PLACES 8u
#define ROWS (TESSERA_EXPORTS / PLACES)

static uint64_t mixed(uint64_t h) {
    h = (h ^ (h >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ (h >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ (h >> 33);
}

static uint64_t digest(const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    return mixed(h);
}

static uint16_t print_of(uint64_t name) {
    return (uint16_t)(name >> 48) ? (uint16_t)(name >> 48) : 1;
}

static uint16_t *row_of(uint64_t name, unsigned which) {
    return &ts_usage()->exported[(uint32_t)(which ? name >> 24 : name) % ROWS * PLACES];
}

/* The place of a name, or NULL; `free_places` of either row are counted on the way. */
static uint16_t *find(uint64_t name, unsigned free_places[2]) {
    for (unsigned which = 0; which < 2; which++) {
        uint16_t *row = row_of(name, which);
        free_places[which] = 0;
        for (unsigned i = 0; i < PLACES; i++) {
            uint16_t there = __atomic_load_n(&row[i], __ATOMIC_RELAXED);
            if (there == print_of(name))
                return &row[i];
            free_places[which] += !there;
        }
    }
    return NULL;
}

static int put(uint16_t *row, uint16_t print) {
    for (unsigned i = 0; i < PLACES; i++) {
        uint16_t there = 0;
        if (__atomic_compare_exchange_n(&row[i], &there, print, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return 1;
    }
    return 0;
}

static void remember(uint64_t name) {
    unsigned room[2];
    if (find(name, room))
        return;
    unsigned first = room[1] > room[0];
    if (!put(row_of(name, first), print_of(name)) && !put(row_of(name, !first), print_of(name))) /* an old one is forgotten */
        __atomic_store_n(&row_of(name, 0)[(name >> 40) % PLACES], print_of(name), __ATOMIC_RELAXED);
}

static int is_ours(uint64_t name) {
    unsigned room[2];
    return find(name, room) != NULL;
}

static void forget(uint64_t name) {
    unsigned room[2];
    uint16_t *at = find(name, room);
    if (at)
        __atomic_store_n(at, 0, __ATOMIC_RELAXED);
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

/* Of a fabric handle the bytes are its name. */
#define FABRIC_BYTES 64
static uint64_t name_of_shareable(const void *shareable, CUmemAllocationHandleType type) {
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return name_of((int)(intptr_t)shareable);
    return type == CU_MEM_HANDLE_TYPE_FABRIC && shareable ? digest(shareable, FABRIC_BYTES) : 0;
}

void ts_foreign_shown(struct ts_card *card, int64_t bytes) {
    __atomic_add_fetch(&card->mine->imported_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

int ts_foreign_from_elsewhere(void *shareable, CUmemAllocationHandleType type) {
    uint64_t name = name_of_shareable(shareable, type);
    return name && !is_ours(name);
}

void ts_foreign_exported(const void *shareable, CUmemAllocationHandleType type) {
    int is_descriptor = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    uint64_t name = name_of_shareable(is_descriptor ? (void *)(intptr_t)*(const int *)shareable : shareable, type);
    if (name)
        remember(name);
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
        remember(digest(handle, sizeof *handle));
        ts_ledger_mark_exported(dptr);
    }
    return r;
}

void ts_foreign_freed(CUdeviceptr dptr) {
    CUipcMemHandle handle;
    if (real.cuIpcGetMemHandle && real.cuIpcGetMemHandle(&handle, dptr) == CUDA_SUCCESS)
        forget(digest(&handle, sizeof handle));
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
    struct ts_holding holding = {.key = *dptr, .bytes = ts_memory_pages(bytes), .references = 1, .thing = TS_FOREIGN,
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
