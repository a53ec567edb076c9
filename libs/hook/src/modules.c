/* Modules and libraries: what loading one takes of the card, seen from before and after. Shown as
 * overhead, and charged where the limits file says so; never refused, for the driver has loaded it. */
#include "overhead.h"

#include "charge.h"
#include "ledger.h"
#include "memory.h"
#include "relaxed.h"
#include "start.h"

#define MOST (UINT64_C(4) << 30) /* more than this was somebody else's */

void ts_overhead_add(struct ts_card *card, enum ts_thing thing, const void *handle, uint64_t owner, uint64_t before,
                     uint64_t after) {
    if (!card || !after || before <= after || before - after > MOST)
        return;
    struct ts_holding holding = {.key = (uint64_t)(uintptr_t)handle, .bytes = before - after, .owner = owner,
                                 .thing = (uint8_t)thing, .kind = TESSERA_CONTEXT, .card = (uint8_t)card->index,
                                 .charged = (ts_get(card->flags) & TESSERA_CARD_CHARGE_OVERHEAD) != 0};
    if (holding.charged)
        ts_charge_anyway(card, TESSERA_CONTEXT, holding.bytes);
    else
        __atomic_add_fetch(&card->mine->overhead_bytes, holding.bytes, __ATOMIC_RELAXED);
    ts_ledger_put(&holding);
}

void ts_overhead_more(struct ts_card *card, enum ts_thing thing, const void *handle, uint64_t owner, uint64_t before,
                      uint64_t after) {
    struct ts_holding known;
    if (!card || !after || before <= after || before - after > MOST)
        return;
    if (ts_ledger_take(thing, (uint64_t)(uintptr_t)handle, &known)) {
        owner = known.owner;
        before += known.bytes; /* and counted anew below */
        ts_memory_drop(&known);
    }
    ts_overhead_add(card, thing, handle, owner, before, after);
}

void ts_overhead_remove(enum ts_thing thing, const void *handle) {
    struct ts_holding holding;
    if (ts_ledger_take(thing, (uint64_t)(uintptr_t)handle, &holding))
        ts_memory_drop(&holding);
}

uint64_t ts_overhead_free(void) {
    size_t unused = 0, total;
    if (!real.cuMemGetInfo_v2 || real.cuMemGetInfo_v2(&unused, &total) != CUDA_SUCCESS)
        return 0;
    return unused;
}

#define LOAD_WRAPPER(symbol, loaded, params, args)                                                                 \
    CUresult symbol params {                                                                                       \
        TS_ENTER(symbol, args);                                                                                    \
        uint64_t before = ts_overhead_free();                                                                      \
        CUresult r = real.symbol args;                                                                             \
        if (r == CUDA_SUCCESS && before)                                                                           \
            ts_overhead_add(ts_card_current(), TS_CODE, *loaded, ts_memory_context(), before, ts_overhead_free()); \
        return r;                                                                                                  \
    }

LOAD_WRAPPER(cuModuleLoad, module, (CUmodule *module, const char *path), (module, path))
LOAD_WRAPPER(cuModuleLoadData, module, (CUmodule *module, const void *image), (module, image))
LOAD_WRAPPER(cuModuleLoadDataEx, module,
             (CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values),
             (module, image, count, options, values))
LOAD_WRAPPER(cuModuleLoadFatBinary, module, (CUmodule *module, const void *image), (module, image))
LOAD_WRAPPER(cuLibraryLoadData, library,
             (CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned int jit_count,
              CUlibraryOption *options, void **values, unsigned int count),
             (library, code, jit, jit_values, jit_count, options, values, count))
LOAD_WRAPPER(cuLibraryLoadFromFile, library,
             (CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values, unsigned int jit_count,
              CUlibraryOption *options, void **values, unsigned int count),
             (library, path, jit, jit_values, jit_count, options, values, count))

CUresult cuModuleUnload(CUmodule module) {
    TS_ENTER(cuModuleUnload, (module));
    CUresult r = real.cuModuleUnload(module);
    if (r == CUDA_SUCCESS)
        ts_overhead_remove(TS_CODE, module);
    return r;
}

CUresult cuLibraryUnload(CUlibrary library) {
    TS_ENTER(cuLibraryUnload, (library));
    CUresult r = real.cuLibraryUnload(library);
    if (r == CUDA_SUCCESS) {
        ts_overhead_remove(TS_CODE, library);
        ts_ledger_take_owned((uint64_t)(uintptr_t)library, ts_memory_drop);
    }
    return r;
}

/* Lazy loading, as since CUDA 12.2: code takes its memory when a function is asked for, or launched. */
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    TS_ENTER(cuModuleGetFunction, (function, module, name));
    uint64_t before = ts_overhead_free();
    CUresult r = real.cuModuleGetFunction(function, module, name);
    if (r == CUDA_SUCCESS && before)
        ts_overhead_more(ts_card_current(), TS_CODE, module, ts_memory_context(), before, ts_overhead_free());
    return r;
}

/* Known by its kernel, so that it goes with its library. */
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    TS_ENTER(cuLibraryGetKernel, (kernel, library, name));
    CUresult r = real.cuLibraryGetKernel(kernel, library, name);
    struct ts_holding known;
    if (r == CUDA_SUCCESS && !ts_ledger_look(TS_CODE_PART, (uint64_t)(uintptr_t)*kernel, &known)) {
        known = (struct ts_holding){.key = (uint64_t)(uintptr_t)*kernel, .owner = (uint64_t)(uintptr_t)library,
                                    .thing = TS_CODE_PART, .kind = TESSERA_CONTEXT, .card = TESSERA_CARDS};
        ts_ledger_put(&known);
    }
    return r;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    TS_ENTER(cuKernelGetFunction, (function, kernel));
    uint64_t before = ts_overhead_free();
    CUresult r = real.cuKernelGetFunction(function, kernel);
    if (r == CUDA_SUCCESS && before)
        ts_overhead_more(ts_card_current(), TS_CODE_PART, kernel, ts_memory_context(), before, ts_overhead_free());
    return r;
}

CUresult cuFuncLoad(CUfunction function) {
    TS_ENTER(cuFuncLoad, (function));
    uint64_t before = ts_overhead_free();
    CUresult r = real.cuFuncLoad(function);
    if (r == CUDA_SUCCESS && before)
        ts_overhead_more(ts_card_current(), TS_CODE_PART, function, ts_memory_context(), before, ts_overhead_free());
    return r;
}

/* The heap of kernels, their stacks and what they print to lie on the card, and go with the context. */
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    TS_ENTER(cuCtxSetLimit, (limit, value));
    uint64_t before = ts_overhead_free(), context = ts_memory_context();
    CUresult r = real.cuCtxSetLimit(limit, value);
    const void *name = (const void *)(uintptr_t)(context ^ ((uint64_t)limit + 1) << 56);
    if (r == CUDA_SUCCESS && before)
        ts_overhead_more(ts_card_current(), TS_CODE_PART, name, context, before, ts_overhead_free());
    return r;
}
