/* Memory: what is refused, what comes back, in what pieces it is taken, and what takes it besides allocations. */
#include "probe.h"

#include <sys/wait.h>
#include <unistd.h>

static void virtual_memory(CUdevice device, size_t limit) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemGenericAllocationHandle one, two;
    CUdeviceptr at;
    size_t granule, size;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    MUST(CU(cuMemGetAllocationGranularity)(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size = limit * 6 / 10 / granule * granule;
    probe_expect("vmm_60pct", CU(cuMemCreate)(&one, size, &prop, 0), CUDA_SUCCESS);
    probe_expect("vmm_over", CU(cuMemCreate)(&two, size, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    MUST(CU(cuMemAddressReserve)(&at, size, 0, 0, 0));
    MUST(CU(cuMemMap)(at, size, 0, one, 0));
    MUST(CU(cuMemRelease)(one));
    probe_expect("vmm_released_but_mapped", CU(cuMemCreate)(&two, size, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    MUST(CU(cuMemUnmap)(at, size));
    probe_expect("vmm_after_unmap", CU(cuMemCreate)(&two, size, &prop, 0), CUDA_SUCCESS);
    MUST(CU(cuMemRelease)(two));
    MUST(CU(cuMemAddressFree)(at, size));
}

/* Under the hook, in a tile of so many MiB. */
void memory(size_t limit_mib) {
    size_t limit = limit_mib * MIB, total, left;
    CUdeviceptr p, q;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR desc = {.Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUdevice device;
    probe_open(&device);
    MUST(CU(cuMemGetInfo_v2)(&left, &total));
    probe_expect("total_is_the_tile", (long long)(total / MIB), (long long)limit_mib);
    probe_expect("alloc_60pct", CU(cuMemAlloc_v2)(&p, limit * 6 / 10), CUDA_SUCCESS);
    probe_expect("alloc_over", CU(cuMemAlloc_v2)(&q, limit * 6 / 10), CUDA_ERROR_OUT_OF_MEMORY);
    probe_expect("managed_over", CU(cuMemAllocManaged)(&q, limit * 6 / 10, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
    probe_expect("array_of_256_mib", CU(cuArrayCreate_v2)(&array, &desc), CUDA_SUCCESS);
    MUST(CU(cuArrayDestroy)(array));
    MUST(CU(cuMemFree_v2)(p));
    virtual_memory(device, limit);
    probe_expect("async_60pct", CU(cuMemAllocAsync)(&p, limit * 6 / 10, NULL), CUDA_SUCCESS);
    probe_expect("async_over", CU(cuMemAllocAsync)(&q, limit * 6 / 10, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    MUST(CU(cuMemFreeAsync)(p, NULL));
    MUST(CU(cuCtxSynchronize)());
    probe_expect("alloc_after_async_free", CU(cuMemAlloc_v2)(&p, limit * 6 / 10), CUDA_SUCCESS);
    MUST(CU(cuMemFree_v2)(p));
    probe_expect("nearly_the_whole_tile", CU(cuMemAlloc_v2)(&p, limit - 64 * MIB), CUDA_SUCCESS);
}

static void taken(const char *what, size_t before, int count) {
    size_t after = probe_free();
    printf("taken_by_%s_kib %.1f\n", what, (double)(before > after ? before - after : 0) / 1024 / count);
}

static void piece(size_t bytes, const char *name) {
    enum { COUNT = 256 };
    CUdeviceptr p[COUNT];
    size_t before = probe_free();
    int n = 0;
    while (n < COUNT && CU(cuMemAlloc_v2)(&p[n], bytes) == CUDA_SUCCESS)
        n++;
    if (n)
        taken(name, before, n);
    while (n)
        MUST(CU(cuMemFree_v2)(p[--n]));
}

/* Without the hook: how the card's memory goes. Contexts, code, the heap and the printf buffer, and the pieces of allocations. */
void whole(void) {
    CUdevice device;
    CUcontext second;
    size_t before;
    probe_open(&device);
    piece(4096, "4_kib");
    piece(65536, "64_kib");
    piece(600000, "600_kb");
    piece(MIB, "1_mib");
    piece(1200000, "1200_kb");
    piece(2 * MIB, "2_mib");
    piece(3 * MIB, "3_mib");
    before = probe_free();
    MUST(CU(cuCtxCreate_v2)(&second, 0, device));
    taken("a_second_context", before, 1);
    before = probe_free();
    MUST(CU(cuCtxSetLimit)(CU_LIMIT_PRINTF_FIFO_SIZE, 64 * MIB));
    taken("a_printf_buffer_of_64_mib", before, 1);
    before = probe_free();
    probe_launch(probe_spin(), 1, 1000, 0, NULL);
    MUST(CU(cuCtxSynchronize)());
    taken("the_first_kernel", before, 1);
    MUST(CU(cuCtxDestroy_v2)(second));
}

static long resident_kib(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Under the hook: what resets and releases give back, and what forks keep. */
void resets(void) {
    CUdeviceptr p;
    CUdevice device;
    CUcontext again;
    CUfunction f;
    probe_open(&device);
    size_t before = probe_free();
    MUST(CU(cuMemAlloc_v2)(&p, 256 * MIB));
    MUST(CU(cuDevicePrimaryCtxReset_v2)(device));
    MUST(CU(cuDevicePrimaryCtxRetain)(&again, device));
    MUST(CU(cuCtxSetCurrent)(again));
    probe_expect("a_reset_gives_everything_back_mib", (long long)(before / MIB) - (long long)(probe_free() / MIB), 0);
    f = probe_spin();
    long kib = 0;
    for (int i = 0; i < 4000; i++) { /* pairs, with a kernel under way: each that left events behind would show in the process's own memory */
        if (i == 2000)
            kib = resident_kib();
        MUST(probe_launch(f, 1, 20000, 0, NULL));
        MUST(CU(cuDevicePrimaryCtxRetain)(&again, device));
        MUST(CU(cuDevicePrimaryCtxRelease_v2)(device));
    }
    MUST(CU(cuCtxSynchronize)());
    probe_expect("mib_that_two_thousand_retains_and_releases_leave", (resident_kib() - kib) / 1024 / 4, 0);
    pid_t child = fork();
    if (child == 0)
        _exit(CU(cuMemAlloc_v2)(&p, MIB) == CUDA_SUCCESS ? 1 : 0);
    int status = -1;
    waitpid(child, &status, 0);
    probe_expect("a_forked_child_has_no_context", status, 0);
}

/* Under the hook: a second process of the container opens so many handles; the charge is the exporter's alone. */
void sharing(int handles) {
    int down[2], up[2];
    long long mine = 0, before = 0;
    if (pipe(down) || pipe(up))
        exit(1);
    pid_t child = fork(); /* before the driver is begun */
    if (child == 0) {
        CUipcMemHandle handle;
        CUdeviceptr p;
        long opened = 0;
        close(down[1]);
        probe_open(NULL);
        while (read(down[0], &handle, sizeof handle) == sizeof handle)
            opened += CU(cuIpcOpenMemHandle_v2)(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS;
        if (write(up[1], &opened, sizeof opened) != sizeof opened)
            _exit(1);
        sleep(1);
        _exit(0);
    }
    close(down[0]);
    probe_open(NULL);
    before = (long long)probe_free();
    for (int i = 0; i < handles; i++) {
        CUipcMemHandle handle;
        CUdeviceptr p;
        MUST(CU(cuMemAlloc_v2)(&p, 2 * MIB));
        MUST(CU(cuIpcGetMemHandle)(&handle, p));
        if (write(down[1], &handle, sizeof handle) != sizeof handle)
            exit(1);
    }
    close(down[1]);
    long opened = 0;
    if (read(up[0], &opened, sizeof opened) != sizeof opened)
        opened = -1;
    mine = before - (long long)probe_free();
    probe_expect("ipc_handles_opened", opened, handles);
    probe_expect("ipc_charged_once_mib", mine / (long long)MIB, 2ll * handles);
    waitpid(child, NULL, 0);
}
