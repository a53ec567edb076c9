/* probe: one small client of the driver for a machine with a real GPU. No headers or libraries of
 * the vendor are needed; kernels are PTX text. Every subcommand prints "name value" lines.
 *   probe uuid | calibrate | memory LIMIT_MIB | view | overhead [CALLS]
 *   probe spin ITERATIONS_PER_US KERNEL_US SECONDS sync|async [STREAMS] */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_abi.h"
#include "nvml_abi.h"

#define MIB ((size_t)1 << 20)

static void *driver;
static void *get(const char *name) {
    void *f = dlsym(driver, name);
    if (!f) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(3);
    }
    return f;
}
#define CU(symbol) ((PFN_##symbol)get(#symbol))
#define MUST(call)                                                            \
    do {                                                                      \
        CUresult r_ = (call);                                                 \
        if (r_ != CUDA_SUCCESS) {                                             \
            fprintf(stderr, "%s: error %d (line %d)\n", #call, (int)r_, __LINE__); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static CUdevice open_device(void) {
    CUdevice device;
    CUcontext context;
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&device, 0));
    MUST(CU(cuDevicePrimaryCtxRetain)(&context, device));
    MUST(CU(cuCtxSetCurrent)(context));
    return device;
}

/* A fixed amount of arithmetic: its GPU time does not depend on who else is on the card. */
static const char ptx[] =
    ".version 6.4\n.target sm_%d\n.address_size 64\n"
    ".visible .entry spin(.param .u64 n, .param .u64 out)\n{\n"
    " .reg .u64 %%rd<5>;\n .reg .f32 %%f<3>;\n .reg .pred %%p<3>;\n"
    " ld.param.u64 %%rd1, [n];\n ld.param.u64 %%rd3, [out];\n mov.f32 %%f1, 0f3F800000;\n mov.u64 %%rd2, 0;\n"
    "LOOP:\n fma.rn.f32 %%f1, %%f1, 0f3F7FFFFF, 0f3A83126F;\n add.u64 %%rd2, %%rd2, 1;\n"
    " setp.lt.u64 %%p1, %%rd2, %%rd1;\n @%%p1 bra LOOP;\n"
    " setp.eq.u64 %%p2, %%rd3, 0;\n @%%p2 bra DONE;\n st.global.f32 [%%rd3], %%f1;\nDONE:\n ret;\n}\n";

static CUfunction spin_kernel(void) {
    static const int targets[] = {52, 70, 75, 80, 90};
    char text[sizeof ptx + 16];
    CUmodule module;
    CUfunction function;
    CUresult r = CUDA_ERROR_NOT_FOUND;
    for (size_t i = 0; i < sizeof targets / sizeof *targets && r != CUDA_SUCCESS; i++) {
        snprintf(text, sizeof text, ptx, targets[i]);
        r = CU(cuModuleLoadData)(&module, text);
    }
    MUST(r);
    MUST(CU(cuModuleGetFunction)(&function, module, "spin"));
    return function;
}

static CUresult launch(CUfunction f, uint64_t iterations, CUstream stream) {
    static PFN_cuLaunchKernel call;
    uint64_t none = 0;
    void *params[] = {&iterations, &none};
    if (!call)
        call = CU(cuLaunchKernel);
    return call(f, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static void uuid(void) {
    CUuuid id;
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGetUuid_v2)(&id, 0));
    const unsigned char *b = (const unsigned char *)id.bytes;
    printf("GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n", b[0], b[1], b[2], b[3], b[4],
           b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static void calibrate(void) {
    CUevent a, b;
    float ms;
    open_device();
    CUfunction f = spin_kernel();
    MUST(CU(cuEventCreate)(&a, 0));
    MUST(CU(cuEventCreate)(&b, 0));
    double best = 0;
    for (int i = 0; i < 20; i++) { /* the clock rises meanwhile */
        MUST(CU(cuEventRecord)(a, NULL));
        MUST(launch(f, 10000000, NULL));
        MUST(CU(cuEventRecord)(b, NULL));
        MUST(CU(cuEventSynchronize)(b));
        MUST(CU(cuEventElapsedTime)(&ms, a, b));
        double rate = 10000000 / ((double)ms * 1000);
        best = i < 10 || rate > best ? rate : best;
    }
    printf("%.2f\n", best);
}

static void expect(const char *what, CUresult got, CUresult wanted) {
    printf("memory.%s %s (%d)\n", what, got == wanted ? "ok" : "WRONG", (int)got);
}

static void try_virtual(CUdevice device, size_t limit) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemGenericAllocationHandle one, two;
    CUdeviceptr at;
    size_t granule, size;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    MUST(CU(cuMemGetAllocationGranularity)(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size = limit * 6 / 10 / granule * granule;
    expect("vmm_create_60pct", CU(cuMemCreate)(&one, size, &prop, 0), CUDA_SUCCESS);
    expect("vmm_create_over", CU(cuMemCreate)(&two, size, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    MUST(CU(cuMemAddressReserve)(&at, size, 0, 0, 0));
    MUST(CU(cuMemMap)(at, size, 0, one, 0));
    MUST(CU(cuMemRelease)(one));
    expect("vmm_released_but_mapped", CU(cuMemCreate)(&two, size, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    MUST(CU(cuMemUnmap)(at, size));
    expect("vmm_after_unmap", CU(cuMemCreate)(&two, size, &prop, 0), CUDA_SUCCESS);
    MUST(CU(cuMemRelease)(two));
    MUST(CU(cuMemAddressFree)(at, size));
}

static void try_pool(size_t limit) {
    CUdeviceptr p, q;
    expect("async_60pct", CU(cuMemAllocAsync)(&p, limit * 6 / 10, NULL), CUDA_SUCCESS);
    expect("async_over", CU(cuMemAllocAsync)(&q, limit * 6 / 10, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    MUST(CU(cuMemFreeAsync)(p, NULL));
    MUST(CU(cuCtxSynchronize)());
    expect("alloc_after_async_free", CU(cuMemAlloc_v2)(&p, limit * 6 / 10), CUDA_SUCCESS);
    MUST(CU(cuMemFree_v2)(p));
}

static void memory(size_t limit) {
    CUdeviceptr p, q;
    size_t free_bytes, total;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR desc = {.Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUdevice device = open_device();
    MUST(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    printf("memory.info free %zu total %zu MiB\n", free_bytes / MIB, total / MIB);
    expect("alloc_60pct", CU(cuMemAlloc_v2)(&p, limit * 6 / 10), CUDA_SUCCESS);
    MUST(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    printf("memory.info_after_60pct free %zu total %zu MiB\n", free_bytes / MIB, total / MIB);
    expect("alloc_over", CU(cuMemAlloc_v2)(&q, limit * 6 / 10), CUDA_ERROR_OUT_OF_MEMORY);
    expect("managed_over", CU(cuMemAllocManaged)(&q, limit * 6 / 10, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
    expect("managed_small", CU(cuMemAllocManaged)(&q, limit / 10, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    MUST(CU(cuMemFree_v2)(q));
    expect("array_256mib", CU(cuArrayCreate_v2)(&array, &desc), limit * 4 / 10 >= 256 * MIB ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
    if (limit * 4 / 10 >= 256 * MIB)
        MUST(CU(cuArrayDestroy)(array));
    MUST(CU(cuMemFree_v2)(p));
    try_virtual(device, limit);
    try_pool(limit);
    expect("whole_tile", CU(cuMemAlloc_v2)(&p, limit), CUDA_SUCCESS);
}

static void view(void) {
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    nvmlDevice_t device;
    nvmlMemory_t v1;
    nvmlMemory_v2_t v2 = {.version = NVML_MEMORY_V2_VERSION};
    nvmlProcessInfo_t processes[64];
    unsigned count = 64;
    CUdeviceptr p;
    open_device();
    MUST(CU(cuMemAlloc_v2)(&p, 100 * MIB));
    if (!nvml)
        return;
    ((PFN_nvmlInit_v2)dlsym(nvml, "nvmlInit_v2"))();
    ((PFN_nvmlDeviceGetHandleByIndex_v2)dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(0, &device);
    if (((PFN_nvmlDeviceGetMemoryInfo)dlsym(nvml, "nvmlDeviceGetMemoryInfo"))(device, &v1) == NVML_SUCCESS)
        printf("view.nvml_v1 total %llu used %llu free %llu MiB\n", v1.total / MIB, v1.used / MIB, v1.free / MIB);
    if (((PFN_nvmlDeviceGetMemoryInfo_v2)dlsym(nvml, "nvmlDeviceGetMemoryInfo_v2"))(device, &v2) == NVML_SUCCESS)
        printf("view.nvml_v2 total %llu reserved %llu used %llu free %llu MiB\n", v2.total / MIB, v2.reserved / MIB,
               v2.used / MIB, v2.free / MIB);
    if (((PFN_nvmlDeviceGetComputeRunningProcesses_v3)dlsym(nvml, "nvmlDeviceGetComputeRunningProcesses_v3"))(
            device, &count, processes) == NVML_SUCCESS)
        for (unsigned i = 0; i < count; i++)
            printf("view.process pid %u %llu MiB\n", processes[i].pid, processes[i].usedGpuMemory / MIB);
}

#define BEST(name, rounds, calls, statement)             \
    do {                                                 \
        double best_ = 1e9;                              \
        for (int r_ = 0; r_ < (rounds); r_++) {          \
            double t_ = now();                           \
            for (int i_ = 0; i_ < (calls); i_++)         \
                statement;                               \
            t_ = (now() - t_) * 1e9 / (calls);           \
            best_ = t_ < best_ ? t_ : best_;             \
            MUST(synchronize());                         \
        }                                                \
        printf("overhead.%s_ns %.1f\n", name, best_);    \
    } while (0)

static void overhead(int calls) {
    PFN_cuCtxSynchronize synchronize = CU(cuCtxSynchronize);
    PFN_cuMemAlloc_v2 allocate = CU(cuMemAlloc_v2);
    PFN_cuMemFree_v2 release = CU(cuMemFree_v2);
    PFN_cuMemGetInfo_v2 info = CU(cuMemGetInfo_v2);
    size_t a, b;
    CUdeviceptr p;
    double t = now();
    open_device();
    printf("overhead.context_ms %.1f\n", (now() - t) * 1e3);
    CUfunction f = spin_kernel();
    MUST(launch(f, 1, NULL));
    MUST(synchronize());
    /* 500 launches fit into the queue: the call itself is timed, not the GPU */
    BEST("launch", calls / 10, 500, MUST(launch(f, 1, NULL)));
    BEST("meminfo", 5, calls, MUST(info(&a, &b)));
    BEST("alloc_free_4k", 5, calls, ((void)allocate(&p, 4096), release(p)));
    BEST("alloc_free_64m", 5, calls / 10, ((void)allocate(&p, 64 * MIB), release(p)));
}

static void spin(double per_us, double kernel_us, double seconds, int sync, int streams) {
    CUstream stream[16];
    open_device();
    CUfunction f = spin_kernel();
    uint64_t iterations = (uint64_t)(per_us * kernel_us);
    long kernels = 0;
    for (int i = 0; i < streams; i++)
        MUST(CU(cuStreamCreate)(&stream[i], CU_STREAM_NON_BLOCKING));
    MUST(launch(f, iterations, stream[0]));
    MUST(CU(cuCtxSynchronize)());
    double start = now(), second = start;
    long at_second = 0;
    while (now() - start < seconds) {
        MUST(launch(f, iterations, stream[kernels % streams]));
        kernels++;
        if (sync)
            MUST(CU(cuStreamSynchronize)(stream[(kernels - 1) % streams]));
        if (now() - second >= 1 && sync) {
            printf("spin.second_pct %.1f\n", (double)(kernels - at_second) * kernel_us / ((now() - second) * 1e6) * 100);
            second = now();
            at_second = kernels;
        }
    }
    MUST(CU(cuCtxSynchronize)());
    double took = now() - start;
    printf("spin.kernels %ld\nspin.seconds %.2f\nspin.achieved_pct %.2f\n", kernels, took,
           (double)kernels * kernel_us / (took * 1e6) * 100);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    if (!strcmp(what, "uuid"))
        uuid();
    else if (!strcmp(what, "calibrate"))
        calibrate();
    else if (!strcmp(what, "memory") && argc > 2)
        memory((size_t)atol(argv[2]) * MIB);
    else if (!strcmp(what, "view"))
        view();
    else if (!strcmp(what, "overhead"))
        overhead(argc > 2 ? atoi(argv[2]) : 1000);
    else if (!strcmp(what, "spin") && argc > 5)
        spin(atof(argv[2]), atof(argv[3]), atof(argv[4]), !strcmp(argv[5], "sync"), argc > 6 ? atoi(argv[6]) : 1);
    else
        return 2;
    return 0;
}
