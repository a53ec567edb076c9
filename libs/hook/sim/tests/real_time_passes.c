/* sim: clock=real
 * The same timeline on the real clock. Lower bounds are exact; what a busy machine may spoil is asked only where it was quick. */
#include <time.h>

#include "check.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(void)
{
    CUevent a, b;
    float ms;
    start();
    CUfunction f = kernel("tessera-sim-module\nkernel k ns=100000000\n", "k");
    OK(cuEventCreate(&a, 0));
    OK(cuEventCreate(&b, 0));
    double from = now();
    OK(cuEventRecord(a, NULL));
    for (int i = 0; i < 10; i++)
        OK(launch(f, 1000, NULL));
    OK(cuEventRecord(b, NULL));
    CUresult asked = cuEventQuery(b);
    double launching = now() - from;
    if (launching < 900) /* launches do not wait */
        EQUAL(asked, CUDA_ERROR_NOT_READY);
    OK(cuEventSynchronize(b));
    CHECK(now() - from >= 1000);
    OK(cuEventElapsedTime(&ms, a, b));
    BETWEEN(ms, 1000, launching < 50 ? 1060 : 1e9);
    return 0;
}
