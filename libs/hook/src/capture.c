#include "capture.h"

#include "log.h"
#include "spans.h"
#include "start.h"

int ts_captures, ts_captures_unseen;

int ts_capturing(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!real.cuStreamIsCapturing)
        return 0;
    if (real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE)
        return 0;
    if (!ts_any_capture()) { /* begun by a function that is newer than this library */
        __atomic_store_n(&ts_captures_unseen, 1, __ATOMIC_RELAXED);
        ts_log(TS_LOG_NOTE, "a stream is captured by a function that this library does not know");
    }
    return 1;
}

void ts_captures_reset(void) {
    ts_captures = ts_captures_unseen = 0;
}

CUstreamCaptureMode ts_capture_relax(CUstreamCaptureMode mode) {
    if (real.cuThreadExchangeStreamCaptureMode)
        real.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static void begun(CUresult r) {
    if (r == CUDA_SUCCESS)
        __atomic_add_fetch(&ts_captures, 1, __ATOMIC_RELAXED);
}

/* An invalidated capture ends with an error, but it ends. In the wrong thread, or on a stream where
 * it did not begin, it goes on. */
static int ends(CUresult r) {
    return r != CUDA_ERROR_INVALID_VALUE && r != CUDA_ERROR_ILLEGAL_STATE &&
           r != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD && r != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
}

static void ended(CUresult r) {
    int now = __atomic_load_n(&ts_captures, __ATOMIC_RELAXED);
    while (ends(r) && now > 0 &&
           !__atomic_compare_exchange_n(&ts_captures, &now, now - 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

#define CAPTURE_WRAPPERS(suffix)                                                                                     \
    CUresult cuStreamBeginCapture##suffix(CUstream stream) {                                                         \
        TS_ENTER(cuStreamBeginCapture##suffix, (stream));                                                            \
        CUresult r = real.cuStreamBeginCapture##suffix(stream);                                                      \
        begun(r);                                                                                                    \
        return r;                                                                                                    \
    }                                                                                                                \
    CUresult cuStreamBeginCapture_v2##suffix(CUstream stream, CUstreamCaptureMode mode) {                            \
        TS_ENTER(cuStreamBeginCapture_v2##suffix, (stream, mode));                                                   \
        CUresult r = real.cuStreamBeginCapture_v2##suffix(stream, mode);                                             \
        begun(r);                                                                                                    \
        return r;                                                                                                    \
    }                                                                                                                \
    CUresult cuStreamBeginCaptureToGraph##suffix(CUstream stream, CUgraph graph, const CUgraphNode *deps,            \
                                                 const CUgraphEdgeData *edges, size_t count,                         \
                                                 CUstreamCaptureMode mode) {                                         \
        TS_ENTER(cuStreamBeginCaptureToGraph##suffix, (stream, graph, deps, edges, count, mode));                    \
        CUresult r = real.cuStreamBeginCaptureToGraph##suffix(stream, graph, deps, edges, count, mode);              \
        begun(r);                                                                                                    \
        return r;                                                                                                    \
    }                                                                                                                \
    CUresult cuStreamBeginRecaptureToGraph##suffix(CUstream stream, CUstreamCaptureMode mode, CUgraph graph,         \
                                                   CUgraphRecaptureCallback callback, void *data) {                  \
        TS_ENTER(cuStreamBeginRecaptureToGraph##suffix, (stream, mode, graph, callback, data));                      \
        CUresult r = real.cuStreamBeginRecaptureToGraph##suffix(stream, mode, graph, callback, data);                \
        begun(r);                                                                                                    \
        return r;                                                                                                    \
    }                                                                                                                \
    CUresult cuStreamBeginCaptureToCig##suffix(CUstream stream, CUstreamCigCaptureParams *params) {                  \
        TS_ENTER(cuStreamBeginCaptureToCig##suffix, (stream, params));                                               \
        CUresult r = real.cuStreamBeginCaptureToCig##suffix(stream, params);                                         \
        begun(r);                                                                                                    \
        return r;                                                                                                    \
    }                                                                                                                \
    CUresult cuStreamEndCaptureToCig##suffix(CUstream stream) {                                                      \
        TS_ENTER(cuStreamEndCaptureToCig##suffix, (stream));                                                         \
        CUresult r = real.cuStreamEndCaptureToCig##suffix(stream);                                                   \
        ended(r);                                                                                                    \
        return r;                                                                                                    \
    }                                                                                                                \
    CUresult cuStreamEndCapture##suffix(CUstream stream, CUgraph *graph) {                                           \
        TS_ENTER(cuStreamEndCapture##suffix, (stream, graph));                                                       \
        CUresult r = real.cuStreamEndCapture##suffix(stream, graph);                                                 \
        ended(r);                                                                                                    \
        return r;                                                                                                    \
    }

CAPTURE_WRAPPERS()
CAPTURE_WRAPPERS(_ptsz)

CUresult cuStreamDestroy(CUstream stream) {
    TS_ENTER(cuStreamDestroy, (stream));
    ts_line_forget(stream);
    return real.cuStreamDestroy(stream);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    TS_ENTER(cuStreamDestroy_v2, (stream));
    ts_line_forget(stream);
    return real.cuStreamDestroy_v2(stream);
}
