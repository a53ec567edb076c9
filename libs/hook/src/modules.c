/* Modules and libraries: what loading one takes of the card, seen from before and after. Shown as
 * overhead, and charged where the limits file says so; never refused, for the driver has loaded it. A neighbour
 * may take memory at the same moment: so all that is counted for one is what its image can take. */
#include "overhead.h"

#include "charge.h"
#include "image.h"
#include "ledger.h"
#include "memory.h"
#include "points.h"
#include "relaxed.h"
#include "start.h"

#define ROUNDING (UINT64_C(4) << 20) /* the driver takes pages of 2 MiB, for code and for data */
#define MULTIPROCESSORS ((CUdevice_attribute)16)
#define THREADS_OF_ONE ((CUdevice_attribute)39)

void ts_overhead_add(struct ts_card *card, enum ts_thing thing, uint64_t key, uint64_t owner, uint64_t taken, uint64_t most) {
    struct ts_holding now;
    if (!card || !taken)
        return;
    struct ts_holding more = {.key = key, .bytes = taken, .owner = owner, .thing = (uint8_t)thing, .kind = TESSERA_CONTEXT,
                              .card = (uint8_t)card->index,
                              .charged = (ts_get(card->flags) & TESSERA_CARD_CHARGE_OVERHEAD) != 0};
    uint64_t added = ts_ledger_grow(&more, most, &now);
    if (added && now.charged)
        ts_charge_anyway(card, TESSERA_CONTEXT, added);
    else
        __atomic_add_fetch(&card->mine->overhead_bytes, added, __ATOMIC_RELAXED);
}

void ts_overhead_remove(enum ts_thing thing, uint64_t key) {
    struct ts_holding holding;
    if (ts_ledger_take(thing, key, &holding))
        ts_memory_drop(&holding);
}

uint64_t ts_overhead_free(void) {
    size_t unused = 0, total;
    if (!real.cuMemGetInfo_v2 || real.cuMemGetInfo_v2(&unused, &total) != CUDA_SUCCESS)
        return 0;
    return unused;
}

static uint64_t number_of(const void *handle) {
    return (uint64_t)(uintptr_t)handle;
}

/* A library is loaded on each card where it is used. User addresses leave the top bits free. */
static uint64_t code_on(const void *image, uint32_t card) {
    return number_of(image) ^ (uint64_t)card << 58;
}

/* Of a module or library: what it took since free memory was `before`. */
static void took(struct ts_card *card, const void *handle, uint64_t before) {
    struct ts_holding image = {.bytes = TS_IMAGE_UNKNOWN};
    uint64_t taken = ts_overhead_taken(before, ts_overhead_free());
    ts_ledger_look(TS_IMAGE, number_of(handle), &image);
    if (card)
        ts_overhead_add(card, TS_CODE, code_on(handle, card->index), ts_memory_context(), taken, image.bytes + ROUNDING);
}

/* `owner`: a module goes with its context, a library with none. */
static void loaded(const void *handle, uint64_t owner, uint64_t bytes, uint64_t before) {
    struct ts_holding image = {.key = number_of(handle), .bytes = bytes, .owner = owner, .thing = TS_IMAGE,
                               .kind = TESSERA_CONTEXT, .card = TESSERA_CARDS};
    ts_ledger_put(&image);
    took(ts_card_current(), handle, before);
}

static void unloaded(const void *handle) {
    struct ts_holding image;
    for (uint32_t i = 0; i <= TESSERA_CARDS; i++) /* the last gives nothing */
        ts_overhead_remove(TS_CODE, code_on(handle, i));
    ts_ledger_take(TS_IMAGE, number_of(handle), &image);
}

void ts_overhead_function(struct ts_card *card, const void *function, uint64_t before) {
    struct ts_holding kernel;
    if (ts_ledger_look(TS_KERNEL, number_of(function), &kernel))
        took(card, (const void *)(uintptr_t)kernel.owner, before);
    else
        ts_overhead_add(card, TS_CODE_PART, number_of(function), ts_memory_context(),
                        ts_overhead_taken(before, ts_overhead_free()), TS_IMAGE_UNKNOWN);
}

#define LOAD_WRAPPER(symbol, handle, owner, bytes, params, args) \
    CUresult symbol params {                                     \
        TS_ENTER(symbol, args);                                  \
        uint64_t before = ts_overhead_free();                    \
        ts_point("code: loads");                                 \
        CUresult r = real.symbol args;                           \
        if (r == CUDA_SUCCESS)                                   \
            loaded(*handle, owner, bytes, before);               \
        return r;                                                \
    }
#define MODULE_WRAPPER(symbol, bytes, params, args) LOAD_WRAPPER(symbol, module, ts_memory_context(), bytes, params, args)

MODULE_WRAPPER(cuModuleLoad, ts_image_file_bytes(path), (CUmodule *module, const char *path), (module, path))
MODULE_WRAPPER(cuModuleLoadData, ts_image_bytes(image), (CUmodule *module, const void *image), (module, image))
MODULE_WRAPPER(cuModuleLoadDataEx, ts_image_bytes(image),
               (CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values),
               (module, image, count, options, values))
MODULE_WRAPPER(cuModuleLoadFatBinary, ts_image_bytes(image), (CUmodule *module, const void *image), (module, image))
LOAD_WRAPPER(cuLibraryLoadData, library, 0, ts_image_bytes(code),
             (CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned int jit_count,
              CUlibraryOption *options, void **values, unsigned int count),
             (library, code, jit, jit_values, jit_count, options, values, count))
LOAD_WRAPPER(cuLibraryLoadFromFile, library, 0, ts_image_file_bytes(path),
             (CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values, unsigned int jit_count,
              CUlibraryOption *options, void **values, unsigned int count),
             (library, path, jit, jit_values, jit_count, options, values, count))

CUresult cuModuleUnload(CUmodule module) {
    TS_ENTER(cuModuleUnload, (module));
    CUresult r = real.cuModuleUnload(module);
    if (r == CUDA_SUCCESS)
        unloaded(module);
    return r;
}

CUresult cuLibraryUnload(CUlibrary library) {
    TS_ENTER(cuLibraryUnload, (library));
    CUresult r = real.cuLibraryUnload(library);
    if (r == CUDA_SUCCESS) {
        unloaded(library);
        ts_ledger_take_owned((uint64_t)(uintptr_t)library, ts_memory_drop);
    }
    return r;
}

/* Lazy loading, as since CUDA 12.2: code takes its memory when a function is asked for, or launched. */
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    TS_ENTER(cuModuleGetFunction, (function, module, name));
    uint64_t before = ts_overhead_free();
    CUresult r = real.cuModuleGetFunction(function, module, name);
    if (r == CUDA_SUCCESS)
        took(ts_card_current(), module, before);
    return r;
}

/* Its code is its library's. */
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    TS_ENTER(cuLibraryGetKernel, (kernel, library, name));
    CUresult r = real.cuLibraryGetKernel(kernel, library, name);
    struct ts_holding known;
    if (r == CUDA_SUCCESS && !ts_ledger_look(TS_KERNEL, number_of(*kernel), &known)) {
        known = (struct ts_holding){.key = number_of(*kernel), .owner = number_of(library), .thing = TS_KERNEL,
                                    .kind = TESSERA_CONTEXT, .card = TESSERA_CARDS};
        ts_ledger_put(&known);
    }
    return r;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    TS_ENTER(cuKernelGetFunction, (function, kernel));
    uint64_t before = ts_overhead_free();
    CUresult r = real.cuKernelGetFunction(function, kernel);
    if (r == CUDA_SUCCESS)
        ts_overhead_function(ts_card_current(), kernel, before);
    return r;
}

CUresult cuFuncLoad(CUfunction function) {
    TS_ENTER(cuFuncLoad, (function));
    uint64_t before = ts_overhead_free();
    CUresult r = real.cuFuncLoad(function);
    CUmodule module = NULL;
    if (r == CUDA_SUCCESS && real.cuFuncGetModule && real.cuFuncGetModule(&module, function) == CUDA_SUCCESS)
        took(ts_card_current(), module, before);
    return r;
}

/* What a limit's value means in bytes, at most. */
static uint64_t limit_bytes(CUlimit limit, size_t value) {
    CUdevice device;
    int multiprocessors = 0, threads = 0;
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE)
        return value + ROUNDING;
    if (limit == CU_LIMIT_STACK_SIZE && real.cuDeviceGetAttribute && real.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
        real.cuDeviceGetAttribute(&multiprocessors, MULTIPROCESSORS, device) == CUDA_SUCCESS &&
        real.cuDeviceGetAttribute(&threads, THREADS_OF_ONE, device) == CUDA_SUCCESS)
        return value * (uint64_t)multiprocessors * (uint64_t)threads + ROUNDING;
    return TS_IMAGE_UNKNOWN;
}

/* The heap of kernels, their stacks and what they print to lie on the card, and go with the context. */
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    TS_ENTER(cuCtxSetLimit, (limit, value));
    uint64_t before = ts_overhead_free(), context = ts_memory_context();
    CUresult r = real.cuCtxSetLimit(limit, value);
    if (r == CUDA_SUCCESS)
        ts_overhead_add(ts_card_current(), TS_CODE_PART, context ^ ((uint64_t)limit + 1) << 56, context,
                        ts_overhead_taken(before, ts_overhead_free()), limit_bytes(limit, value));
    return r;
}
