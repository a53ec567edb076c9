/* What calls cost, and how much of the card kernels get. */
#include "probe.h"

#include <dlfcn.h>
#include <unistd.h>

static int by_size(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }

#define TIMED(name, rounds, calls, before, statement, after)                      \
    do {                                                                          \
        double t_[64];                                                            \
        int n_ = (rounds) > 63 ? 63 : (rounds);                                   \
        for (int r_ = 0; r_ < n_; r_++) {                                         \
            before;                                                               \
            t_[r_] = probe_now();                                                 \
            for (int i_ = 0; i_ < (calls); i_++)                                  \
                statement;                                                        \
            t_[r_] = (probe_now() - t_[r_]) * 1e9 / (calls);                      \
            after;                                                                \
        }                                                                         \
        qsort(t_, (size_t)n_, sizeof *t_, by_size);                               \
        printf("%s_ns %.1f\n", name, t_[n_ / 2]);                                 \
        fflush(stdout);                                                           \
    } while (0)

/* Medians of rounds, in nanoseconds a call. */
void cost(int rounds) {
    PFN_cuCtxSynchronize synchronize = CU(cuCtxSynchronize);
    PFN_cuMemAlloc_v2 allocate = CU(cuMemAlloc_v2);
    PFN_cuMemFree_v2 release = CU(cuMemFree_v2);
    PFN_cuMemGetInfo_v2 info = CU(cuMemGetInfo_v2);
    PFN_cuEventCreate create = CU(cuEventCreate);
    PFN_cuEventRecord record = CU(cuEventRecord);
    PFN_cuEventQuery query = CU(cuEventQuery);
    PFN_cuEventDestroy_v2 destroy = CU(cuEventDestroy_v2);
    PFN_cuStreamIsCapturing capturing = CU(cuStreamIsCapturing);
    PFN_cuMemPoolGetAttribute pool_attribute = CU(cuMemPoolGetAttribute);
    PFN_cuMemAllocAsync allocate_async = CU(cuMemAllocAsync);
    PFN_cuMemFreeAsync release_async = CU(cuMemFreeAsync);
    PFN_cuGraphLaunch graph_launch = CU(cuGraphLaunch);
    enum { LIVE = 10000 };
    static CUdeviceptr live[LIVE];
    CUdevice device;
    CUmemoryPool pool;
    CUevent event;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    uint64_t value;
    size_t a, b;
    CUdeviceptr p;
    double t = probe_now();
    probe_open(&device);
    printf("first_context_ms %.1f\n", (probe_now() - t) * 1e3);
    CUfunction f = probe_spin();
    MUST(CU(cuDeviceGetDefaultMemPool)(&pool, device));
    MUST(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    MUST(create(&event, CU_EVENT_DISABLE_TIMING));
    MUST(probe_launch(f, 1, 1, 0, stream));
    MUST(synchronize());
    /* 500 launches fit into the queue: the call is timed, not the card */
    TIMED("launch", rounds, 500, (void)0, MUST(probe_launch(f, 1, 1, 0, stream)), MUST(synchronize()));
    TIMED("memory_info", rounds, 500, (void)0, MUST(info(&a, &b)), (void)0);
    TIMED("alloc_free_4k", rounds, 200, (void)0, ((void)allocate(&p, 4096), release(p)), (void)0);
    TIMED("alloc_free_64m", rounds, 20, (void)0, ((void)allocate(&p, 64 * MIB), release(p)), (void)0);
    TIMED("alloc_free_async", rounds, 200, (void)0, ((void)allocate_async(&p, MIB, stream), release_async(p, stream)), MUST(synchronize()));
    TIMED("event_record", rounds, 200, (void)0, MUST(record(event, stream)), MUST(synchronize()));
    TIMED("event_query", rounds, 200, (void)0, (void)query(event), (void)0);
    TIMED("event_create_destroy", rounds, 200, (void)0, ((void)destroy(event), (void)create(&event, CU_EVENT_DISABLE_TIMING)), (void)0);
    TIMED("stream_is_capturing", rounds, 200, (void)0, MUST(capturing(stream, &status)), (void)0);
    TIMED("pool_attribute", rounds, 200, (void)0, MUST(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value)), (void)0);
    MUST(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < 10; i++)
        MUST(probe_launch(f, 1, 1, 0, stream));
    MUST(CU(cuStreamEndCapture)(stream, &graph));
    MUST(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    TIMED("graph_launch_of_10", rounds, 50, (void)0, MUST(graph_launch(exec, stream)), MUST(synchronize()));
    int n = 0;
    while (n < LIVE && allocate(&live[n], 4096) == CUDA_SUCCESS)
        n++;
    TIMED("alloc_free_at_10000_live", rounds, 100, (void)0, ((void)allocate(&p, 4096), release(p)), (void)0);
}

static uint64_t simulated_busy(void) {
    uint64_t (*busy)(int, int) = (uint64_t(*)(int, int))(uintptr_t)probe_try("cuSimBusy");
    return busy ? busy(0, (int)getpid()) : 0;
}

/* Busy time is the kernels' own; on the simulated driver, whose kernels write nothing, the machine's. */
void spin(double kernel_us, double seconds, int synchronous, int streams, int all_sms, int graph) {
    CUstream stream[16];
    CUdevice device;
    CUdeviceptr out;
    CUgraph captured;
    CUgraphExec exec = NULL;
    int sms = 1;
    long launched = 0;
    uint64_t ns = (uint64_t)(kernel_us * 1000), sum[3] = {0};
    probe_open(&device);
    CUfunction f = probe_spin();
    if (all_sms)
        MUST(CU(cuDeviceGetAttribute)(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    streams = streams < 1 ? 1 : streams > 16 ? 16 : streams;
    for (int i = 0; i < streams; i++)
        MUST(CU(cuStreamCreate)(&stream[i], CU_STREAM_NON_BLOCKING));
    MUST(CU(cuMemAlloc_v2)(&out, sizeof sum));
    if (graph) {
        MUST(CU(cuStreamBeginCapture_v2)(stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
        for (int i = 0; i < 20; i++)
            MUST(probe_launch(f, (unsigned)sms, ns, out, stream[0]));
        MUST(CU(cuStreamEndCapture)(stream[0], &captured));
        MUST(CU(cuGraphInstantiateWithFlags)(&exec, captured, 0));
    }
    MUST(probe_launch(f, (unsigned)sms, ns, 0, stream[0]));
    MUST(CU(cuCtxSynchronize)());
    MUST(CU(cuMemsetD8_v2)(out, 0, sizeof sum));
    uint64_t before = simulated_busy();
    double start = probe_now();
    while (probe_now() - start < seconds) {
        CUstream s = stream[launched % streams];
        if (exec)
            MUST(CU(cuGraphLaunch)(exec, stream[0]));
        else
            MUST(probe_launch(f, (unsigned)sms, ns, out, s));
        launched++;
        if (synchronous)
            MUST(CU(cuStreamSynchronize)(s));
    }
    MUST(CU(cuCtxSynchronize)());
    double took = probe_now() - start;
    MUST(CU(cuMemcpyDtoH_v2)(sum, out, sizeof sum));
    double busy = sum[1] ? (double)sum[1] : (double)(simulated_busy() - before);
    printf("kernels %llu\nseconds %.3f\nbusy_pct %.2f\nstretch %.3f\n", sum[0] ? (unsigned long long)sum[0] : (unsigned long long)launched * (exec ? 20 : 1), took,
           busy / (took * 1e9) * 100, sum[1] ? (double)sum[2] / (double)sum[1] : 1.0);
}

/* What NVML shows beside the driver. */
void view(void) {
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    nvmlDevice_t device;
    nvmlMemory_t v1;
    nvmlMemory_v2_t v2 = {.version = NVML_MEMORY_V2_VERSION};
    nvmlProcessInfo_t processes[64];
    unsigned count = 64, own = 0;
    size_t left, total;
    CUdeviceptr p;
    probe_open(NULL);
    MUST(CU(cuMemAlloc_v2)(&p, 100 * MIB));
    MUST(CU(cuMemGetInfo_v2)(&left, &total));
    printf("driver_total_mib %zu\ndriver_used_mib %zu\n", total / MIB, (total - left) / MIB);
    if (!nvml)
        return;
    ((PFN_nvmlInit_v2)dlsym(nvml, "nvmlInit_v2"))();
    ((PFN_nvmlDeviceGetHandleByIndex_v2)dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(0, &device);
    if (((PFN_nvmlDeviceGetMemoryInfo)dlsym(nvml, "nvmlDeviceGetMemoryInfo"))(device, &v1) == NVML_SUCCESS)
        printf("nvml_v1_total_mib %llu\nnvml_v1_used_mib %llu\n", v1.total / MIB, v1.used / MIB);
    if (((PFN_nvmlDeviceGetMemoryInfo_v2)dlsym(nvml, "nvmlDeviceGetMemoryInfo_v2"))(device, &v2) == NVML_SUCCESS)
        printf("nvml_v2_total_mib %llu\nnvml_v2_used_mib %llu\nnvml_v2_reserved_mib %llu\n", v2.total / MIB, v2.used / MIB, v2.reserved / MIB);
    nvmlReturn_t r = ((PFN_nvmlDeviceGetComputeRunningProcesses_v3)dlsym(nvml, "nvmlDeviceGetComputeRunningProcesses_v3"))(device, &count, processes);
    for (unsigned i = 0; r == NVML_SUCCESS && i < count; i++)
        own += processes[i].pid == (unsigned)getpid();
    printf("nvml_processes %u\nnvml_own_process %u\n", r == NVML_SUCCESS ? count : 0, own);
}
