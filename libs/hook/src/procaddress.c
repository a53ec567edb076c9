/* cuGetProcAddress: the driver answers first, with its own rules for versions and flags; then its
 * answer is replaced by our function for exactly that address, or, where the driver hands out another
 * address than dlsym finds, for exactly that name, version and kind of stream. */
#include <string.h>

#include "log.h"
#include "route.h"
#include "slots.h"
#include "start.h"
#include "tessera/usage.h"

/* Families of which a version that we do not know may pass: they wait, look, or begin and end what is
 * found out otherwise. All the others take memory or launch, or are the lookup itself. */
static int is_harmless(const char *symbol) {
    static const char *const names[] = {"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuDeviceTotalMem",
        "cuMemGetInfo", "cuStreamBeginCapture", "cuStreamBeginCaptureToGraph", "cuStreamBeginRecaptureToGraph",
        "cuStreamBeginCaptureToCig", "cuStreamEndCaptureToCig", "cuStreamEndCapture", "cuStreamDestroy", "cuMemPoolTrimTo",
        "cuDeviceGraphMemTrim"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], symbol))
            return 1;
    return 0;
}

static void replace(const char *symbol, int version, cuuint64_t flags, void **pfn) {
    void *ours = ts_route_address(*pfn);
    if (!ours && symbol && *symbol && ts_route_family(symbol)) {
        ours = ts_route_named(symbol, version, flags, *pfn);
        if (ours)
            ts_log_once(TS_LOG_NOTE, "the driver's cuGetProcAddress and dlsym differ: functions are known by name");
        else
            ts_log(TS_LOG_WARNING, "the driver has a %s for version %d that this library does not know", symbol, version);
        if (!ours && !is_harmless(symbol))
            ts_gap(TESSERA_GAP_SYMBOL);
    }
    if (ours)
        *pfn = ours;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags) {
    TS_ENTER(cuGetProcAddress, (symbol, pfn, version, flags));
    CUresult r = real.cuGetProcAddress(symbol, pfn, version, flags);
    if (r == CUDA_SUCCESS && pfn && *pfn)
        replace(symbol, version, flags, pfn);
    return r;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
    TS_ENTER(cuGetProcAddress_v2, (symbol, pfn, version, flags, status));
    CUresult r = real.cuGetProcAddress_v2(symbol, pfn, version, flags, status);
    if (r == CUDA_SUCCESS && pfn && *pfn)
        replace(symbol, version, flags, pfn);
    return r;
}
