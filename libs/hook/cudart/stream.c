/* Streams, captures, events. */
#include "cudart.h"

typedef CUstream cudaStream_t;
typedef CUevent cudaEvent_t;

API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
API cudaError_t cudaStreamCreate(cudaStream_t *stream);
API cudaError_t cudaStreamDestroy(cudaStream_t stream);
API cudaError_t cudaStreamSynchronize(cudaStream_t stream);
API cudaError_t cudaStreamQuery(cudaStream_t stream);
API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority);
API cudaError_t cudaStreamAddCallback(cudaStream_t stream, CUstreamCallback fn, void *data, unsigned flags);
API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status);
API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
API cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, int mode);
API cudaError_t cudaStreamEndCapture(cudaStream_t stream, CUgraph *graph);
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, int *status, unsigned long long *id, CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **edges, size_t *count);
API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, unsigned flags);
API cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode);
API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
API cudaError_t cudaEventCreate(cudaEvent_t *event);
API cudaError_t cudaEventDestroy(cudaEvent_t event);
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags);
API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
API cudaError_t cudaEventQuery(cudaEvent_t event);
API cudaError_t cudaEventSynchronize(cudaEvent_t event);
API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);
API cudaError_t cudaIpcGetEventHandle(CUipcEventHandle *handle, cudaEvent_t event);
API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, CUipcEventHandle handle);
API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, CUhostFn fn, void *data);

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) { WITH_CONTEXT(driver.cuStreamCreateWithPriority(stream, flags, priority)); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { WITH_CONTEXT(driver.cuStreamDestroy_v2(stream)); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { WITH_CONTEXT(driver.cuStreamSynchronize(stream)); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { WITH_CONTEXT(driver.cuStreamQuery(stream)); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) { WITH_CONTEXT(driver.cuStreamWaitEvent(stream, event, flags)); }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) { WITH_CONTEXT(driver.cuStreamGetPriority(stream, priority)); }
cudaError_t cudaStreamAddCallback(cudaStream_t stream, CUstreamCallback fn, void *data, unsigned flags) { WITH_CONTEXT(driver.cuStreamAddCallback(stream, fn, data, flags)); }
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status) { WITH_CONTEXT(driver.cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status)); }
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode) { WITH_CONTEXT(driver.cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode)); }

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, int mode)
{
    WITH_CONTEXT(driver.cuStreamBeginCaptureToGraph(stream, graph, deps, edges, count, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, CUgraph *graph) { WITH_CONTEXT(driver.cuStreamEndCapture(stream, graph)); }

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, int *status, unsigned long long *id, CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **edges, size_t *count)
{
    WITH_CONTEXT(driver.cuStreamGetCaptureInfo_v3(stream, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph, deps, edges, count));
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, unsigned flags)
{
    (void)edges;
    WITH_CONTEXT(driver.cuStreamUpdateCaptureDependencies(stream, deps, count, flags));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode) { WITH_DRIVER(driver.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode)); }
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { WITH_CONTEXT(driver.cuCtxGetStreamPriorityRange(least, greatest)); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) { WITH_CONTEXT(driver.cuEventCreate(event, flags)); }
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { WITH_CONTEXT(driver.cuEventDestroy_v2(event)); }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) { WITH_CONTEXT(driver.cuEventRecordWithFlags(event, stream, flags)); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecordWithFlags(event, stream, 0); }
cudaError_t cudaEventQuery(cudaEvent_t event) { WITH_CONTEXT(driver.cuEventQuery(event)); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { WITH_CONTEXT(driver.cuEventSynchronize(event)); }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) { WITH_CONTEXT(driver.cuEventElapsedTime_v2(ms, start, end)); }
cudaError_t cudaIpcGetEventHandle(CUipcEventHandle *handle, cudaEvent_t event) { WITH_CONTEXT(driver.cuIpcGetEventHandle(handle, event)); }
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, CUipcEventHandle handle) { WITH_CONTEXT(driver.cuIpcOpenEventHandle(event, handle)); }
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, CUhostFn fn, void *data) { WITH_CONTEXT(driver.cuLaunchHostFunc(stream, fn, data)); }
