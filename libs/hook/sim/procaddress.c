/* cuGetProcAddress: one table of {base name, symbol, version, family}, made from the list of all functions.
 *
 * A request names the base; the newest entry whose version is not above the asked one wins, per family. flags = 2 looks among the
 * per-thread-stream twins first and falls back to the legacy entry; 0 and 1 never see a twin. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *base;
    int version;
    bool twin;
    void *address, *thunk;
} Entry;

#define POINTER(symbol) (void *)(uintptr_t)(symbol)
static Entry entries[] = {
#define CUDA_FN(base, symbol, since, params) {#base, since, false, NULL, NULL},
#define CUDA_FN_PTSZ(base, symbol, since, twin_since, params, args) {#base, since, false, NULL, NULL}, {#base, twin_since, true, NULL, NULL},
#define CUDA_FN_PTDS(base, symbol, since, twin_since, params, args) {#base, since, false, NULL, NULL}, {#base, twin_since, true, NULL, NULL},
#define CUDA_FN_ALIAS(base, symbol, since) {#base, since, false, NULL, NULL},
#include "../abi/cuda_functions.def"
#undef CUDA_FN
#undef CUDA_FN_PTSZ
#undef CUDA_FN_PTDS
#undef CUDA_FN_ALIAS
};
enum { COUNT = sizeof entries / sizeof *entries };

/* A second address for every function, which jumps to it: with thunks=1 these are what the lookup hands out, while dlsym finds the
 * functions themselves. */
#if defined(__x86_64__)
#define JUMP "jmp "
#else
#define JUMP "b "
#endif
#define THUNK(symbol)                                                                        \
    extern char thunk_##symbol[] __attribute__((visibility("hidden")));                       \
    __asm__(".pushsection .text\n.hidden thunk_" #symbol "\n.globl thunk_" #symbol "\nthunk_" #symbol ": " JUMP #symbol "\n.popsection");
#define CUDA_FN(base, symbol, since, params) THUNK(symbol)
#define CUDA_FN_PTSZ(base, symbol, since, twin_since, params, args) THUNK(symbol) THUNK(symbol##_ptsz)
#define CUDA_FN_PTDS(base, symbol, since, twin_since, params, args) THUNK(symbol) THUNK(symbol##_ptds)
#define CUDA_FN_ALIAS(base, symbol, since)
#include "../abi/cuda_functions.def"
#undef CUDA_FN
#undef CUDA_FN_PTSZ
#undef CUDA_FN_PTDS
#undef CUDA_FN_ALIAS

static void fill(void)
{
    size_t i = 0;
#define FILL(symbol) entries[i].thunk = thunk_##symbol; entries[i++].address = POINTER(symbol);
#define CUDA_FN(base, symbol, since, params) FILL(symbol)
#define CUDA_FN_PTSZ(base, symbol, since, twin_since, params, args) FILL(symbol) FILL(symbol##_ptsz)
#define CUDA_FN_PTDS(base, symbol, since, twin_since, params, args) FILL(symbol) FILL(symbol##_ptds)
#define CUDA_FN_ALIAS(base, symbol, since) FILL(symbol)
#include "../abi/cuda_functions.def"
#undef CUDA_FN
#undef CUDA_FN_PTSZ
#undef CUDA_FN_PTDS
#undef CUDA_FN_ALIAS
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static const Entry *newest(const char *name, int version, bool twin, bool *known)
{
    const Entry *best = NULL;
    for (size_t i = 0; i < COUNT; i++) {
        if (entries[i].twin != twin || strcmp(entries[i].base, name))
            continue;
        *known = true;
        if (entries[i].version <= version && (!best || entries[i].version > best->version))
            best = &entries[i];
    }
    return best;
}

/* What a real driver has and this one lacks. With TESSERA_SIM_STUBS=1 such names are found and do nothing but refuse, so that the real
 * runtime library gets through its whole lookup; otherwise they are not found. */
static CUresult lacking(void) { return CUDA_ERROR_NOT_SUPPORTED; }

static bool stubbed(const char *name)
{
    const char *wanted = getenv("TESSERA_SIM_STUBS");
    return wanted && *wanted == '1' && strncmp(name, "cu", 2) == 0 && name[2] >= 'A' && name[2] <= 'Z';
}

#define FUTURE 14000

/* The driver is as old as its configured CUDA version: newer entries do not exist in it. */
static CUdriverProcAddressQueryResult look_up(const char *name, void **pfn, int version, cuuint64_t flags)
{
    bool known = false;
    int driver = sim_open() ? (int)sim->config.cuda_version : 0;
    const Entry *found = NULL;
    pthread_once(&once, fill);
    if (version > driver)
        version = driver;
    if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        found = newest(name, version, true, &known);
    if (!found)
        found = newest(name, version, false, &known);
    *pfn = !found ? NULL : sim->config.thunks ? found->thunk : found->address;
    if (found && version >= FUTURE) /* a version of it that nobody has seen yet */
        *pfn = POINTER(lacking);
    if (!known && stubbed(name)) {
        *pfn = POINTER(lacking);
        return CU_GET_PROC_ADDRESS_SUCCESS;
    }
    return found ? CU_GET_PROC_ADDRESS_SUCCESS : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

/* A name that is not there is CUDA_ERROR_NOT_FOUND from both entry points (assumed for _v2, whose status says why). The empty name is
 * accepted, with nothing found: the runtime library probes with it first and gives up when that fails. */
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    if (!symbol || !pfn || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult result = look_up(symbol, pfn, version, flags);
    if (status)
        *status = result;
    if (getenv("TESSERA_SIM_TRACE")) /* every request, for finding out what a client asks */
        fprintf(stderr, "tessera-sim: lookup '%s' %d %d -> %d\n", symbol, version, (int)flags, (int)result);
    return result == CU_GET_PROC_ADDRESS_SUCCESS || !*symbol ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags) { return cuGetProcAddress_v2(symbol, pfn, version, flags, NULL); }
