/* sim: clock=virtual
 * Capture modes: what fails, what it does to the capture, what stays legal beside it. */
#include <pthread.h>

#include "check.h"

static CUstream stream, second, lazy;
static CUevent event, outside;
static CUcontext ctx;
static CUfunction f;
static int exchange_there;
static CUresult event_query_there, alloc_there, record_there, end_there;

static void *elsewhere(void *unused)
{
    CUdeviceptr p = 0;
    CUgraph g;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuCtxSetCurrent(ctx));
    if (exchange_there) {
        OK(cuThreadExchangeStreamCaptureMode(&mode));
        EQUAL(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    }
    record_there = cuEventRecord(outside, lazy);
    event_query_there = cuEventQuery(outside);
    alloc_there = cuMemAlloc_v2(&p, 4096);
    end_there = cuStreamEndCapture(stream, &g);
    if (!alloc_there)
        cuMemFree_v2(p);
    if (exchange_there) {
        OK(cuThreadExchangeStreamCaptureMode(&mode));
        EQUAL(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    }
    return unused;
}

static CUresult beside(CUstreamCaptureMode mode, int exchange) /* what another thread may do, and what becomes of the capture */
{
    pthread_t t;
    CUgraph g;
    exchange_there = exchange;
    OK(cuStreamBeginCapture_v2(stream, mode));
    OK(launch(f, 1, stream));
    CHECK(pthread_create(&t, NULL, elsewhere, NULL) == 0);
    pthread_join(t, NULL);
    if (mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return end_there;
    CUresult r = cuStreamEndCapture(stream, &g);
    CHECK((r == CUDA_SUCCESS) == (g != NULL));
    return r;
}

static CUresult offence(CUresult result, CUresult expected) /* ends a capture that the call before it offended */
{
    CUgraph g;
    CUstreamCaptureStatus status;
    EQUAL(result, expected);
    OK(cuStreamIsCapturing(stream, &status));
    EQUAL(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EQUAL(launch(f, 1, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUresult r = cuStreamEndCapture(stream, &g);
    CHECK(g == NULL);
    return r;
}

#define INVALID CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
#define BEGIN(mode) OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_##mode))

int main(void)
{
    CUdeviceptr p;
    CUgraph g;
    CUstreamCaptureStatus status;
    cuuint64_t id;
    size_t n;
    ctx = start();
    f = kernel("tessera-sim-module\nkernel k ns=1000\n", "k");
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&lazy, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&outside, 0));
    OK(cuEventRecord(outside, lazy));

    EQUAL(beside(CU_STREAM_CAPTURE_MODE_GLOBAL, 0), INVALID);
    EQUAL(event_query_there, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); /* a watchdog's query ends a global capture */
    EQUAL(alloc_there, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(record_there);
    EQUAL(end_there, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    OK(beside(CU_STREAM_CAPTURE_MODE_GLOBAL, 1)); /* unless it exchanged its mode */
    OK(event_query_there);
    OK(alloc_there);
    OK(beside(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 0));
    OK(alloc_there);
    OK(beside(CU_STREAM_CAPTURE_MODE_RELAXED, 0)); /* may even be ended elsewhere */
    OK(alloc_there);

    BEGIN(GLOBAL);
    EQUAL(offence(cuMemAlloc_v2(&p, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED), INVALID);
    BEGIN(THREAD_LOCAL);
    EQUAL(offence(cuMemAlloc_v2(&p, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED), INVALID);
    BEGIN(RELAXED);
    OK(cuMemAlloc_v2(&p, 1));
    EQUAL(offence(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED), INVALID);
    BEGIN(RELAXED);
    EQUAL(offence(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED), INVALID);
    BEGIN(RELAXED);
    EQUAL(offence(launch(f, 1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT), INVALID); /* the legacy stream */
    BEGIN(RELAXED);
    EQUAL(offence(cuStreamWaitEvent(stream, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION), INVALID);
    BEGIN(GLOBAL);
    OK(cuMemGetInfo_v2(&n, &n));
    OK(launch(f, 1, lazy)); /* work on a stream outside is fine */
    EQUAL(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    OK(cuEventRecord(event, stream));
    EQUAL(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &g, NULL, &n));
    EQUAL(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuStreamEndCapture(stream, &g));
    OK(cuStreamIsCapturing(NULL, &status));

    BEGIN(GLOBAL); /* fork and join */
    OK(launch(f, 1, stream));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(second, event, 0));
    OK(launch(f, 1, second));
    EQUAL(cuStreamEndCapture(second, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    EQUAL(cuStreamEndCapture(stream, &g), INVALID);
    BEGIN(GLOBAL);
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(second, event, 0));
    OK(launch(f, 1, second));
    EQUAL(cuStreamEndCapture(stream, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    BEGIN(GLOBAL);
    OK(launch(f, 1, stream));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(second, event, 0));
    OK(launch(f, 1, second));
    OK(cuEventRecord(event, second));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(launch(f, 1, stream));
    OK(cuStreamEndCapture(stream, &g));
    OK(cuGraphGetEdges(g, NULL, NULL, &n));
    EQUAL(n, 3);
    OK(cuStreamIsCapturing(second, &status));
    EQUAL(status, CU_STREAM_CAPTURE_STATUS_NONE);
    EQUAL(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EQUAL(cuStreamEndCapture(stream, &g), CUDA_ERROR_ILLEGAL_STATE);
    return 0;
}
