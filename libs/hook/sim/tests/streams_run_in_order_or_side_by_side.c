/* sim: clock=virtual sms=100
 * Within a context: order in a stream, side by side across streams, the legacy stream between blocking ones, host functions. */
#include "check.h"

static const char text[] = "tessera-sim-module\nkernel ms ns=1000000\nkernel wave ns_per_wave=1000\nkernel given ns=arg0\n";
static uint64_t begun;
static void mark(void) { begun = cuSimNow(); }
static uint64_t gone(void) { return cuSimNow() - begun; }
static int called;
static void callback(void *data)
{
    CHECK(cuSimNow() - begun == 1000000);
    called += *(int *)data;
}

int main(void)
{
    CUstream a, b, free_stream;
    CUevent e;
    int one = 1;
    start();
    CUfunction f = kernel(text, "ms"), wave = kernel(text, "wave"), given = kernel(text, "given");
    OK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&b, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, 0));

    mark();
    OK(launch(f, 10, a));
    OK(launch(f, 10, a));
    OK(cuStreamSynchronize(a));
    EQUAL(gone(), 2000000); /* in order */

    mark();
    OK(launch(f, 10, a));
    OK(launch(f, 10, b));
    OK(cuCtxSynchronize());
    EQUAL(gone(), 1000000); /* both fit on the card */

    mark();
    OK(launch(f, 100, a));
    OK(launch(f, 100, b));
    OK(cuCtxSynchronize());
    EQUAL(gone(), 2000000); /* each would fill it */

    mark();
    OK(launch(f, 10, a));
    OK(launch(f, 10, NULL)); /* after a, before b */
    OK(launch(f, 10, b));
    OK(launch(f, 10, free_stream)); /* beside them all */
    OK(cuCtxSynchronize());
    EQUAL(gone(), 3000000);

    mark();
    OK(launch(f, 10, a));
    OK(cuLaunchKernel_ptsz(f, 10, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)); /* this thread's own stream */
    OK(cuStreamSynchronize_ptsz(NULL));
    EQUAL(gone(), 1000000);

    mark();
    OK(launch(f, 10, a));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(free_stream, e, 0));
    OK(launch(f, 10, free_stream));
    EQUAL(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(free_stream));
    EQUAL(gone(), 2000000);
    OK(cuEventQuery(e));

    cuSimJoin();
    mark();
    OK(launch(f, 10, a));
    OK(cuLaunchHostFunc(a, callback, &one));
    OK(launch(f, 10, a));
    OK(cuStreamSynchronize(a));
    EQUAL(gone(), 2000000);
    EQUAL(called, 1);

    uint64_t ns = 777;
    void *params[] = {&ns};
    mark();
    OK(cuLaunchKernel(given, 1, 1, 1, 1, 1, 1, 0, a, params, NULL));
    OK(launch(wave, 250, a)); /* three waves on 100 SMs */
    OK(cuLaunchKernel(f, 65536, 65535, 1, 1, 1, 1, 0, a, NULL, NULL)); /* over 2^32 blocks */
    OK(cuStreamSynchronize(a));
    EQUAL(gone(), 777 + 3000 + 1000000);

    mark();
    for (int i = 0; i < 3000; i++) /* far more than the queue holds: launching waits for room */
        OK(launch(f, 10, a));
    BETWEEN(gone() / 1000000, 3000 - 1024 - 1, 3000 - 1024 + 1);
    OK(cuStreamSynchronize(a));
    EQUAL(gone(), UINT64_C(3000000000));

    while (cuEventQuery(e) == CUDA_SUCCESS) { /* polling alone makes time pass */
        OK(launch(f, 10, b));
        OK(cuEventRecord(e, b));
    }
    while (cuEventQuery(e) == CUDA_ERROR_NOT_READY)
        continue;
    OK(cuStreamDestroy_v2(a));
    EQUAL(cuStreamSynchronize(a), CUDA_ERROR_INVALID_HANDLE);
    return 0;
}
