/* What captures forbid, and what an offence does to them. */
#include "capture.h"

Capture *sim_captures;
unsigned sim_capture_count;
static _Thread_local CUstreamCaptureMode mode_here = CU_STREAM_CAPTURE_MODE_GLOBAL;
static _Thread_local char here; /* its address names the thread */

const void *sim_capture_thread(void) { return &here; }

/* Potentially unsafe calls: forbidden by captures of this thread that are not relaxed and, in global mode, by global captures of any
 * thread. The offence fails the call and invalidates those captures. */
CUresult sim_unsafe(void)
{
    CUresult r = CUDA_SUCCESS;
    if (!__atomic_load_n(&sim_capture_count, __ATOMIC_RELAXED) || mode_here == CU_STREAM_CAPTURE_MODE_RELAXED)
        return r;
    sim_local_lock();
    for (Capture *c = sim_captures; c; c = c->next) {
        bool forbids = c->thread == sim_capture_thread() ? c->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                                          : mode_here == CU_STREAM_CAPTURE_MODE_GLOBAL && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (forbids) {
            c->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    sim_local_unlock();
    return r;
}

/* The legacy stream may not be made to depend on a blocking stream that captures, whatever the mode. */
CUresult sim_legacy_use(CUstream stream)
{
    CUresult r = CUDA_SUCCESS;
    if (!__atomic_load_n(&sim_capture_count, __ATOMIC_RELAXED) || !stream->legacy)
        return r;
    sim_local_lock();
    for (CUstream s = sim_streams(); s; s = s->next)
        if (s->capture && s->ctx == stream->ctx && !(s->flags & CU_STREAM_NON_BLOCKING)) {
            s->capture->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    sim_local_unlock();
    return r;
}

CUresult sim_unsafe_stream(CUstream stream)
{
    if (stream->capture) {
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult r = sim_legacy_use(stream);
    return r ? r : sim_unsafe();
}

bool sim_capturing(CUstream stream, CUresult *error)
{
    *error = CUDA_SUCCESS;
    if (stream->capture) {
        if (stream->capture->invalid)
            *error = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        return true;
    }
    *error = sim_legacy_use(stream);
    return *error != CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER();
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = mode_here;
    mode_here = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
