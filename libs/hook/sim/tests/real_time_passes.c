/* sim: clock=real
 * The same timeline on the real clock. The lower bounds are exact; the upper ones allow for a busy machine. */
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
    CUfunction f = kernel("tessera-sim-module\nkernel k ns=5000000\n", "k");
    OK(cuEventCreate(&a, 0));
    OK(cuEventCreate(&b, 0));
    double from = now();
    OK(cuEventRecord(a, NULL));
    for (int i = 0; i < 10; i++)
        OK(launch(f, 1000, NULL));
    OK(cuEventRecord(b, NULL));
    BETWEEN(now() - from, 0, 40); /* launches do not wait */
    EQUAL(cuEventQuery(b), CUDA_ERROR_NOT_READY);
    OK(cuEventSynchronize(b));
    BETWEEN(now() - from, 50, 500);
    OK(cuEventElapsedTime(&ms, a, b));
    BETWEEN(ms, 50, 51);
    return 0;
}
