/* GPU time achieved against the limit, on the simulated machine's virtual clock: limits x kernels x
 * sync and async of one process with its per-second swing; 2 and 4 processes of one container; 2 and
 * 4 containers, one idle among them, that an agent measures. `make bench` adds up the errors. */
#include <sys/wait.h>
#include <unistd.h>

#include "tenants.h"

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


/* Processes of one container: together they may have what one may have. */
static void processes(int count, unsigned limit, uint64_t ns, int sync) {
    int ends[2];
    double sum = 0, got;
    EQUAL(pipe(ends), 0);
    for (int i = 0; i < count; i++)
        if (fork() == 0) {
            begin();
            CUfunction f = kernel(ns);
            ((void (*)(void))(uintptr_t)driver_get("cuSimJoin"))();
            uint64_t from = sim_now() + 1000 * MS, busy = 0, begun = 0;
            for (;;) {
                EQUAL(CU(cuLaunchKernel)(f, 64, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL), 0);
                if (sync)
                    EQUAL(CU(cuCtxSynchronize)(), 0);
                uint64_t now = sim_now();
                if (!begun && now >= from) {
                    begun = now;
                    busy = sim_busy(getpid());
                } else if (now >= from + 20000 * MS) {
                    got = 100.0 * (double)(sim_busy(getpid()) - busy) / (double)(now - begun);
                    _exit(write(ends[1], &got, sizeof got) != sizeof got);
                }
            }
        }
    for (int i = 0; i < count; i++) {
        EQUAL(read(ends[0], &got, sizeof got), sizeof got);
        sum += got;
    }
    printf("%u %% %6llu us %-5s mean %6.2f error %+.2f of %d processes\n", limit, (unsigned long long)ns / 1000,
           sync ? "sync" : "async", sum, sum - limit, count);
}
#define PROCESSES(count, limit, name, ns)                                                                       \
    TEST(processes_##count##_##limit##_##name##_sync, "cores=" #limit, "clock=virtual participants=" #count) {  \
        processes(count, limit, ns, 1);                                                                         \
    }                                                                                                           \
    TEST(processes_##count##_##limit##_##name##_async, "cores=" #limit, "clock=virtual participants=" #count) { \
        processes(count, limit, ns, 0);                                                                         \
    }
PROCESSES(2, 30, 1ms, MS) PROCESSES(4, 30, 1ms, MS) PROCESSES(2, 50, 5ms, 5 * MS) PROCESSES(4, 75, 5ms, 5 * MS)
PROCESSES(4, 50, 50us, 50000)

static void containers(struct tenant *tenants, int count) {
    tenants_run(tenants, count, 30);
    for (int i = 0; i < count; i++) {
        double wanted = tenants[i].idle ? 0 : tenants[i].cores;
        printf("%u %% %6llu us %-5s mean %6.2f error %+.2f of %d containers\n", tenants[i].cores,
               (unsigned long long)tenants[i].kernel_ns / 1000, tenants[i].idle ? "idle" : "sync", tenants[i].share,
               tenants[i].share - wanted, count);
    }
}
#define OF(percent, ns) {.cores = percent, .kernel_ns = ns}
#define CONTAINERS(name, count, ...)                                          \
    TEST(name, NULL, "clock=virtual participants=" #count) {                  \
        struct tenant t[] = {__VA_ARGS__};                                    \
        containers(t, (int)(sizeof t / sizeof *t));                           \
    }
CONTAINERS(containers_50_50, 3, OF(50, MS), OF(50, MS))
CONTAINERS(containers_30_70, 3, OF(30, 5 * MS), OF(70, 5 * MS))
CONTAINERS(containers_30_60_long, 3, OF(30, 20 * MS), OF(60, 20 * MS))
CONTAINERS(containers_25_each, 5, OF(25, MS), OF(25, MS), OF(25, MS), OF(25, MS))
CONTAINERS(containers_one_idle, 5, OF(25, MS), OF(25, 5 * MS), OF(25, MS), {.cores = 25, .kernel_ns = MS, .idle = 1})
