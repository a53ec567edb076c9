/* benchmarks/hook: nanoseconds over the bare call. Run by bench/hook.sh with and without the hook;
 * prints "name ns" lines. argv[1]: live allocations for the large case (default 100000), or "poll" and the
 * seconds for which to ask for free memory every 10 ms: prints the processor's time of the call, once started. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_abi.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double processor(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *driver;
static void *get(const char *name)
{
    void *f = dlsym(driver, name);
    if (!f) {
        fprintf(stderr, "no %s\n", name);
        exit(1);
    }
    return f;
}
#define GET(symbol) PFN_##symbol p_##symbol = (PFN_##symbol)get(#symbol)

/* The best of several rounds: what the machine does when nobody else is on the core. */
#define BEST(name, rounds, count, statement)                     \
    do {                                                         \
        double best = 1e30;                                      \
        for (int round_ = 0; round_ < (rounds); round_++) {      \
            double t_ = now();                                   \
            for (long i_ = 0; i_ < (count); i_++)                \
                statement;                                       \
            t_ = (now() - t_) / (double)(count);                 \
            best = t_ < best ? t_ : best;                        \
        }                                                        \
        printf("%s %.1f\n", name, best);                         \
    } while (0)

static void alloc_free(PFN_cuMemAlloc_v2 allocate, PFN_cuMemFree_v2 release)
{
    CUdeviceptr p;
    if (allocate(&p, 4096) == CUDA_SUCCESS)
        release(p);
}

static void poll_memory(PFN_cuMemGetInfo_v2 ask, double seconds)
{
    const struct timespec pause = {0, 10000000};
    size_t a, b;
    double from = processor(), end = now() + seconds * 1e9;
    while (now() < end) {
        ask(&a, &b);
        nanosleep(&pause, NULL);
    }
    printf("polling %.0f\n", processor() - from);
}

int main(int argc, char **argv)
{
    long live = argc > 1 ? atol(argv[1]) : 100000;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return 1;
    GET(cuInit);
    GET(cuDevicePrimaryCtxRetain);
    GET(cuCtxSetCurrent);
    GET(cuMemAlloc_v2);
    GET(cuMemFree_v2);
    GET(cuMemGetInfo_v2);
    GET(cuLaunchKernel);
    GET(cuGetProcAddress_v2);
    GET(cuModuleGetFunction);
    CUcontext ctx;
    CUfunction f = NULL;
    size_t a, b;
    void *pfn;
    double t = now();
    p_cuInit(0);
    p_cuDevicePrimaryCtxRetain(&ctx, 0);
    p_cuCtxSetCurrent(ctx);
    p_cuMemGetInfo_v2(&a, &b);
    printf("start %.0f\n", now() - t);
    if (argc > 2 && !strcmp(argv[1], "poll")) {
        poll_memory(p_cuMemGetInfo_v2, atof(argv[2]));
        return 0;
    }
    p_cuModuleGetFunction(&f, NULL, "spin");
    BEST("launch", 200, 10000, p_cuLaunchKernel(f, 128, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL));
    BEST("meminfo", 200, 10000, p_cuMemGetInfo_v2(&a, &b));
    BEST("procaddress", 20, 10000, p_cuGetProcAddress_v2("cuLaunchKernel", &pfn, 12000, 0, NULL));
    CUdeviceptr *held = malloc((size_t)live * sizeof *held);
    long have = 0;
    while (have < 100 && p_cuMemAlloc_v2(&held[have], 4096) == CUDA_SUCCESS)
        have++;
    BEST("alloc_free_100", 200, 5000, alloc_free(p_cuMemAlloc_v2, p_cuMemFree_v2));
    while (have < live && p_cuMemAlloc_v2(&held[have], 4096) == CUDA_SUCCESS)
        have++;
    BEST("alloc_free_many", 200, 5000, alloc_free(p_cuMemAlloc_v2, p_cuMemFree_v2));
    printf("live %ld\n", have);
    return 0;
}
