#include "contexts.h"

#include <string.h>

#include "charge.h"
#include "memory.h"
#include "limits.h"
#include "overhead.h"
#include "relaxed.h"
#include "slots.h"
#include "spans.h"
#include "start.h"

#define DEVICES 64
#define MOST_CONTEXT (UINT64_C(1) << 30) /* of any card's: what is more, a neighbour took at the same moment */

static CUcontext primary[DEVICES];

void ts_contexts_reset(void) {
    memset(primary, 0, sizeof primary);
}

/* Free memory of a card before there may be a context: asked of the current one if it is there,
 * else of NVML, which takes its time, and so only where contexts are charged. */
static uint64_t free_on(CUdevice device) {
    CUdevice current;
    struct ts_card *card = ts_card_by_device(device);
    if (real.cuCtxGetDevice && real.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device)
        return ts_overhead_free();
    return card && (ts_get(card->flags) & TESSERA_CARD_CHARGE_OVERHEAD) ? ts_overhead_free_by_nvml(card->uuid) : 0;
}

/* From here on the process is visible: it holds a context on that card. */
static void arrived(CUresult r, CUdevice device, const void *handle, uint64_t before) {
    struct ts_card *card = r == CUDA_SUCCESS ? ts_card_by_device(device) : NULL;
    if (!card)
        return;
    ts_lock_take(&card->lock);
    if (card->slot >= 0 || ts_slot_claim(card))
        __atomic_add_fetch(&card->mine->contexts, 1, __ATOMIC_RELAXED);
    ts_lock_give(&card->lock);
    if (before)
        ts_overhead_add(card, TS_CONTEXT_OBJECT, (uint64_t)(uintptr_t)handle, 0, ts_overhead_taken(before, free_on(device)),
                        MOST_CONTEXT);
    ts_tick();
}

static void left(struct ts_card *card) {
    if (card && __atomic_load_n(&card->mine->contexts, __ATOMIC_RELAXED) > 0)
        __atomic_sub_fetch(&card->mine->contexts, 1, __ATOMIC_RELAXED);
}

/* A green context's memory may outlive it, in the primary one. */
static void drop_unless_there(const struct ts_holding *holding) {
    unsigned type;
    struct ts_holding kept = *holding;
    kept.owner = 0;
    if (holding->thing == TS_POINTER && real.cuPointerGetAttribute &&
        real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, holding->key) == CUDA_SUCCESS)
        ts_ledger_put(&kept);
    else
        ts_memory_drop(holding);
}

/* The driver frees what was allocated in a context together with it. */
static void gone(CUcontext context) {
    ts_ledger_take_owned((uint64_t)(uintptr_t)context, ts_memory_drop);
    ts_overhead_remove(TS_CONTEXT_OBJECT, (uint64_t)(uintptr_t)context);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    TS_ENTER(cuDevicePrimaryCtxRetain, (context, device));
    int first = device >= 0 && device < DEVICES && !primary[device];
    uint64_t before = first ? free_on(device) : 0;
    CUresult r = real.cuDevicePrimaryCtxRetain(context, device);
    if (r == CUDA_SUCCESS && device >= 0 && device < DEVICES) {
        if (first)
            arrived(r, device, *context, before);
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

/* The runtime library takes the primary context by a table of the driver's, past our wrapper: then the
 * driver is asked which one it is, by taking and giving it back while somebody else holds it. */
static CUcontext primary_of(CUdevice device) {
    unsigned flags;
    int active = 0;
    CUcontext context = NULL;
    if (device >= 0 && device < DEVICES && primary[device])
        return primary[device];
    if (!real.cuDevicePrimaryCtxGetState || !real.cuDevicePrimaryCtxRetain || !real.cuDevicePrimaryCtxRelease_v2 ||
        real.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active ||
        real.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    real.cuDevicePrimaryCtxRelease_v2(device);
    return context;
}

/* A release is seldom the last one: what is measured in the context goes on until it is gone. */
static CUresult leave_primary(CUdevice device, PFN_cuDevicePrimaryCtxRelease_v2 leave, int reset) {
    CUcontext context = primary_of(device);
    if (reset)
        ts_spans_leave(context);
    CUresult r = leave(device);
    if (!context || r != CUDA_SUCCESS || (!reset && still_active(device)))
        return r;
    ts_spans_leave(context);
    gone(context);
    if (device >= 0 && device < DEVICES && primary[device]) {
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
    uint64_t before = free_on(device);
    CUresult r = real.cuCtxCreate(context, flags, device);
    arrived(r, device, r == CUDA_SUCCESS ? *context : NULL, before);
    return r;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
    TS_ENTER(cuCtxCreate_v2, (context, flags, device));
    uint64_t before = free_on(device);
    CUresult r = real.cuCtxCreate_v2(context, flags, device);
    arrived(r, device, r == CUDA_SUCCESS ? *context : NULL, before);
    return r;
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int count, unsigned int flags,
                        CUdevice device) {
    TS_ENTER(cuCtxCreate_v3, (context, params, count, flags, device));
    uint64_t before = free_on(device);
    CUresult r = real.cuCtxCreate_v3(context, params, count, flags, device);
    arrived(r, device, r == CUDA_SUCCESS ? *context : NULL, before);
    return r;
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device) {
    TS_ENTER(cuCtxCreate_v4, (context, params, flags, device));
    uint64_t before = free_on(device);
    CUresult r = real.cuCtxCreate_v4(context, params, flags, device);
    arrived(r, device, r == CUDA_SUCCESS ? *context : NULL, before);
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

CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device, unsigned int flags) {
    TS_ENTER(cuGreenCtxCreate, (green, desc, device, flags));
    uint64_t before = free_on(device);
    CUresult r = real.cuGreenCtxCreate(green, desc, device, flags);
    arrived(r, device, r == CUDA_SUCCESS ? *green : NULL, before);
    return r;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green) {
    TS_ENTER(cuGreenCtxDestroy, (green));
    CUcontext context = NULL;
    if (real.cuCtxFromGreenCtx && real.cuCtxFromGreenCtx(&context, green) != CUDA_SUCCESS)
        context = NULL;
    struct ts_card *card = card_in(context);
    ts_spans_leave(context);
    CUresult r = real.cuGreenCtxDestroy(green);
    if (r == CUDA_SUCCESS) {
        ts_ledger_take_owned((uint64_t)(uintptr_t)context, drop_unless_there);
        ts_overhead_remove(TS_CONTEXT_OBJECT, (uint64_t)(uintptr_t)green);
        left(card);
    }
    return r;
}
