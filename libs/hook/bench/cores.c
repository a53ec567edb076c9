/* benchmarks/hook-cores: GPU time achieved against the limit, on the simulated machine's virtual
 * clock: limits x kernels x sync and async, one process; per-second swing. Tenants and processes
 * are in tests/tenant_cases.c and tests/time_cases.c, which print the same figures. */
#include <unistd.h>

#include "harness.h"

#define MS 1000000ull

static void measure(unsigned limit, uint64_t ns, int sync, unsigned seconds) {
    begin();
    CUfunction f = kernel(ns);
    PFN_cuLaunchKernel call = CU(cuLaunchKernel);
    PFN_cuCtxSynchronize synchronize = CU(cuCtxSynchronize);
    uint64_t second = sim_now() + 1000 * MS, busy = 0, from = 0, first_busy = 0;
    double low = 1e9, high = 0;
    unsigned seen = 0;
    while (seen <= seconds) {
        call(f, 64, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL);
        if (sync)
            synchronize();
        uint64_t now = sim_now();
        if (now < second)
            continue;
        uint64_t all = sim_busy(getpid());
        if (seen) {
            double share = 100.0 * (double)(all - busy) / (double)(now - second + 1000 * MS);
            low = share < low ? share : low;
            high = share > high ? share : high;
        } else {
            from = now;
            first_busy = all;
        }
        busy = all;
        second = now + 1000 * MS;
        seen++;
    }
    double mean = 100.0 * (double)(busy - first_busy) / (double)(sim_now() - from);
    printf("%u %% %6llu us %-5s mean %6.2f error %+.2f seconds %.1f..%.1f\n", limit, (unsigned long long)ns / 1000,
           sync ? "sync" : "async", mean, mean - limit, low, high);
}

#define ONE(limit, name, ns, seconds)                                                                       \
    TEST(cores_##limit##_##name##_sync, "cores=" #limit, "clock=virtual") { measure(limit, ns, 1, seconds); } \
    TEST(cores_##limit##_##name##_async, "cores=" #limit, "clock=virtual") { measure(limit, ns, 0, seconds); }
#define KERNELS(limit)                                                                                           \
    ONE(limit, 5us, 5000, 5) ONE(limit, 50us, 50000, 5) ONE(limit, 1ms, MS, 10) ONE(limit, 20ms, 20 * MS, 20) \
    ONE(limit, 100ms, 100 * MS, 60) ONE(limit, 500ms, 500 * MS, 200)
KERNELS(10)
KERNELS(25)
KERNELS(30)
KERNELS(50)
KERNELS(75)
KERNELS(90)
