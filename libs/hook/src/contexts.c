#include "contexts.h"

#include <string.h>

#include "charge.h"
#include "memory.h"
#include "limits.h"
#include "slots.h"
#include "spans.h"
#include "start.h"

#define DEVICES 64

static CUcontext primary[DEVICES];

void ts_contexts_reset(void) {
    memset(primary, 0, sizeof primary);
}

/* From here on the process is visible: it holds a context on that card. */
static void arrived(CUresult r, CUdevice device) {
    struct ts_card *card = r == CUDA_SUCCESS ? ts_card_by_device(device) : NULL;
    if (!card)
        return;
    ts_lock_take(&card->lock);
    if (card->slot >= 0 || ts_slot_claim(card))
        __atomic_add_fetch(&card->mine->contexts, 1, __ATOMIC_RELAXED);
    ts_lock_give(&card->lock);
    ts_tick();
}

static void left(struct ts_card *card) {
    if (card && __atomic_load_n(&card->mine->contexts, __ATOMIC_RELAXED) > 0)
        __atomic_sub_fetch(&card->mine->contexts, 1, __ATOMIC_RELAXED);
}

/* The driver frees what was allocated in a context together with it. */
static void gone(CUcontext context) {
    ts_ledger_take_owned((uint64_t)(uintptr_t)context, ts_memory_drop);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    TS_ENTER(cuDevicePrimaryCtxRetain, (context, device));
    CUresult r = real.cuDevicePrimaryCtxRetain(context, device);
    if (r == CUDA_SUCCESS && device >= 0 && device < DEVICES) {
        if (!primary[device])
            arrived(r, device);
        primary[device] = *context;
    }
    return r;
}

static int still_active(CUdevice device) {
    unsigned flags;
    int active = 0;
    return !real.cuDevicePrimaryCtxGetState ||
           (real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active);
}

static CUresult leave_primary(CUdevice device, PFN_cuDevicePrimaryCtxRelease_v2 leave, int reset) {
    CUcontext context = device >= 0 && device < DEVICES ? primary[device] : NULL;
    if (reset || context)
        ts_spans_leave(context);
    CUresult r = leave(device);
    if (context && r == CUDA_SUCCESS && (reset || !still_active(device))) {
        gone(context);
        primary[device] = NULL;
        left(ts_card_by_device(device));
    }
    return r;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    TS_ENTER(cuDevicePrimaryCtxRelease, (device));
    return leave_primary(device, real.cuDevicePrimaryCtxRelease, 0);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    TS_ENTER(cuDevicePrimaryCtxRelease_v2, (device));
    return leave_primary(device, real.cuDevicePrimaryCtxRelease_v2, 0);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
    TS_ENTER(cuDevicePrimaryCtxReset, (device));
    return leave_primary(device, real.cuDevicePrimaryCtxReset, 1);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    TS_ENTER(cuDevicePrimaryCtxReset_v2, (device));
    return leave_primary(device, real.cuDevicePrimaryCtxReset_v2, 1);
}

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device) {
    TS_ENTER(cuCtxCreate, (context, flags, device));
    CUresult r = real.cuCtxCreate(context, flags, device);
    arrived(r, device);
    return r;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
    TS_ENTER(cuCtxCreate_v2, (context, flags, device));
    CUresult r = real.cuCtxCreate_v2(context, flags, device);
    arrived(r, device);
    return r;
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int count, unsigned int flags,
                        CUdevice device) {
    TS_ENTER(cuCtxCreate_v3, (context, params, count, flags, device));
    CUresult r = real.cuCtxCreate_v3(context, params, count, flags, device);
    arrived(r, device);
    return r;
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device) {
    TS_ENTER(cuCtxCreate_v4, (context, params, flags, device));
    CUresult r = real.cuCtxCreate_v4(context, params, flags, device);
    arrived(r, device);
    return r;
}

static struct ts_card *card_in(CUcontext context) {
    struct ts_card *card = NULL;
    CUcontext popped;
    if (context && real.cuCtxPushCurrent_v2 && real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
        card = ts_card_current();
        real.cuCtxPopCurrent_v2(&popped);
    }
    return card;
}

static CUresult destroy(CUcontext context, PFN_cuCtxDestroy_v2 call) {
    struct ts_card *card = card_in(context);
    ts_spans_leave(context);
    CUresult r = call(context);
    if (r == CUDA_SUCCESS) {
        gone(context);
        left(card);
    }
    return r;
}

CUresult cuCtxDestroy(CUcontext context) {
    TS_ENTER(cuCtxDestroy, (context));
    return destroy(context, real.cuCtxDestroy);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    TS_ENTER(cuCtxDestroy_v2, (context));
    return destroy(context, real.cuCtxDestroy_v2);
}

/* Modules: what loading one takes of the card, seen from before and after. Shown, and charged where
 * the limits file says so; never refused, for the driver has loaded it already. */
static size_t free_now(void) {
    size_t unused = 0, total;
    if (!real.cuMemGetInfo_v2 || real.cuMemGetInfo_v2(&unused, &total) != CUDA_SUCCESS)
        return 0;
    return unused;
}

static void loaded(CUresult r, size_t before) {
    size_t after = r == CUDA_SUCCESS ? free_now() : 0;
    struct ts_card *card = r == CUDA_SUCCESS ? ts_card_current() : NULL;
    if (!card || !after || before <= after || before - after > (UINT64_C(1) << 30))
        return;
    if (card->flags & TESSERA_CARD_CHARGE_OVERHEAD)
        ts_charge_anyway(card, TESSERA_CONTEXT, before - after);
    else
        __atomic_add_fetch(&card->mine->overhead_bytes, before - after, __ATOMIC_RELAXED);
}

#define MODULE_WRAPPER(symbol, params, args)  \
    CUresult symbol params {                  \
        TS_ENTER(symbol, args);               \
        size_t before = free_now();           \
        CUresult r = real.symbol args;        \
        loaded(r, before);                    \
        return r;                             \
    }

MODULE_WRAPPER(cuModuleLoad, (CUmodule *module, const char *path), (module, path))
MODULE_WRAPPER(cuModuleLoadData, (CUmodule *module, const void *image), (module, image))
MODULE_WRAPPER(cuModuleLoadDataEx,
               (CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values),
               (module, image, count, options, values))
MODULE_WRAPPER(cuModuleLoadFatBinary, (CUmodule *module, const void *image), (module, image))
MODULE_WRAPPER(cuLibraryLoadData,
               (CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned int jit_count,
                CUlibraryOption *options, void **values, unsigned int count),
               (library, code, jit, jit_values, jit_count, options, values, count))
