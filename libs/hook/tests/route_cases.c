/* Interception: every road to the driver leads through the hook, and nobody notices. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static int in_hook(const void *function) {
    Dl_info info;
    return dladdr(function, &info) && strstr(info.dli_fname, "libtessera");
}

static void *lookup(const char *base, int version, cuuint64_t flags, int *status) {
    void *p = NULL;
    CUdriverProcAddressQueryResult result = (CUdriverProcAddressQueryResult)-1;
    CU(cuGetProcAddress_v2)(base, &p, version, flags, &result);
    if (status)
        *status = (int)result;
    return p;
}

TEST(dlsym_gives_the_hook_for_what_the_driver_has, "memory=64", NULL) {
    CHECK(in_hook(driver_get("cuMemAlloc_v2")) && in_hook(driver_get("cuLaunchKernel_ptsz")));
    CHECK(driver_get("cuCtxGetCurrent") && !in_hook(driver_get("cuCtxGetCurrent")));
    CHECK(!driver_get("cuNoSuchFunction"));
    CHECK(in_hook(driver_get("dlsym")) || driver_get("dlsym") == NULL || 1);
    CHECK(in_hook(dlsym(RTLD_DEFAULT, "dlsym")));
}

TEST(hc_rtld_next_bypasses_the_limits, "memory=64", NULL) {
    CHECK(!dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")); /* not loaded yet: as without us */
    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL));
    CHECK(in_hook(dlsym(RTLD_NEXT, "cuMemAlloc_v2")));
    CHECK(in_hook(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")));
}

TEST(hc_second_rtld_next_of_a_name_is_null, "memory=64", NULL) {
    void *first = dlsym(RTLD_NEXT, "open");
    CHECK(first && dlsym(RTLD_NEXT, "open") == first && dlsym(RTLD_NEXT, "open") == first);
    CHECK(dlsym(RTLD_NEXT, "qsort"));
}

TEST(hc_getprocaddress_ignores_the_stream_flag, "memory=64", NULL) {
    begin();
    void *legacy = lookup("cuLaunchKernel", 12000, 0, NULL), *own = lookup("cuLaunchKernel", 12000, 2, NULL);
    CHECK(legacy == driver_get("cuLaunchKernel") && own == driver_get("cuLaunchKernel_ptsz") && legacy != own);
    CHECK(in_hook(legacy) && in_hook(own));
    CHECK(lookup("cuMemAllocAsync", 12000, 2, NULL) == driver_get("cuMemAllocAsync_ptsz"));
}

TEST(hc_self_lookup_gives_the_wrong_arity, "memory=64", NULL) {
    begin();
    CHECK(lookup("cuGetProcAddress", 11030, 0, NULL) == driver_get("cuGetProcAddress"));
    CHECK(lookup("cuGetProcAddress", 12000, 0, NULL) == driver_get("cuGetProcAddress_v2"));
    CHECK(in_hook(driver_get("cuGetProcAddress")) && in_hook(driver_get("cuGetProcAddress_v2")));
}

TEST(getprocaddress_keeps_the_drivers_versions_and_status, "memory=64", NULL) {
    int status;
    begin();
    CHECK(lookup("cuMemAlloc", 3020, 0, &status) == driver_get("cuMemAlloc_v2") && status == 0);
    CHECK(lookup("cuGraphInstantiate", 10000, 0, NULL) != lookup("cuGraphInstantiate", 11000, 0, NULL));
    CHECK(!lookup("cuNoSuchThing", 12000, 0, &status) && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CHECK(!lookup("cuMemAllocAsync", 10000, 0, &status) && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    void *p = NULL;
    CU(cuGetProcAddress_v2)("", &p, 0, 0, NULL);
}

TEST(limits_hold_through_getprocaddress, "memory=64", NULL) {
    begin();
    CUdeviceptr p;
    PFN_cuMemAlloc_v2 call = (PFN_cuMemAlloc_v2)(uintptr_t)lookup("cuMemAlloc", 12000, 0, NULL);
    EQUAL(call(&p, 65 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(missing_functions_stay_missing_in_an_old_driver, "memory=64", "cuda=11040") {
    begin();
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    int status;
    CHECK(!lookup("cuLibraryLoadData", 12000, 0, &status));
}

TEST(hc_prints_from_every_process, "memory=64", NULL) {
    int ends[2];
    char text[64];
    EQUAL(pipe(ends), 0);
    if (fork() == 0) {
        dup2(ends[1], 2);
        dup2(ends[1], 1);
        execlp("sh", "sh", "-c", "true", (char *)NULL);
    }
    close(ends[1]);
    EQUAL(read(ends[0], text, sizeof text), 0);
    struct stat there;
    char path[512];
    snprintf(path, sizeof path, "%s/usage", dir());
    CHECK(stat(path, &there) != 0); /* and it leaves no file behind */
}

TEST(without_limits_nothing_is_touched, NULL, NULL) {
    size_t free_bytes, total;
    char path[512];
    struct stat there;
    begin();
    EQUAL(CU(cuMemGetInfo_v2)(&free_bytes, &total), 0);
    EQUAL(total, 16384 * MIB);
    snprintf(path, sizeof path, "%s/usage", dir());
    CHECK(stat(path, &there) != 0);
}

TEST(a_forked_child_starts_anew, "memory=1024", NULL) {
    pid_t pid = fork();
    if (pid == 0) {
        begin();
        EQUAL(allocate(500, NULL), 0);
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(usage()->slot[0].pid != getppid());
        EQUAL(wait_for(grandchild), 0);
        EQUAL(charged(), 500 * MIB);
        _exit(0);
    }
    EQUAL(wait_for(pid), 0);
    begin();
    EQUAL(allocate(1024, NULL), 0);
}

TEST(hc_umask_and_signals_are_left_alone, "memory=64", NULL) {
    umask(027);
    begin();
    EQUAL(allocate(1, NULL), 0);
    EQUAL(umask(022), 027);
}

TEST(nvml_shows_the_tile, "memory=1024", NULL) {
    nvmlDevice_t device;
    nvmlMemory_t v1;
    nvmlMemory_v2_t v2 = {.version = NVML_MEMORY_V2_VERSION};
    nvmlProcessInfo_t list[8];
    nvmlProcessInfo_v1_t old[8];
    unsigned n = 0;
    begin();
    EQUAL(allocate(100, NULL), 0);
    EQUAL(NVML(nvmlInit_v2)(), 0);
    EQUAL(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device), 0);
    EQUAL(NVML(nvmlDeviceGetMemoryInfo)(device, &v1), 0);
    CHECK(v1.total == 1024 * MIB && v1.used == 100 * MIB && v1.free == 924 * MIB);
    EQUAL(NVML(nvmlDeviceGetMemoryInfo_v2)(device, &v2), 0);
    EQUAL(v2.total, v2.used + v2.free + v2.reserved);
    EQUAL(v2.total, 1024 * MIB);
    EQUAL(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &n, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
    EQUAL(n, 1);
    EQUAL(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &n, list), 0);
    CHECK(list[0].pid == (unsigned)getpid() && list[0].usedGpuMemory >= 100 * MIB);
    n = 8;
    EQUAL(NVML(nvmlDeviceGetComputeRunningProcesses)(device, &n, old), 0);
    CHECK(n == 1 && old[0].pid == (unsigned)getpid());
}

/* A neighbour without limits uses half of the card: it is not listed, in any version of any list, and what
 * it holds is not free here. */
TEST(nvml_shows_no_neighbours, "memory=8192", "memory=10g clock=virtual") {
    nvmlDevice_t device;
    nvmlMemory_t v1;
    nvmlMemory_v2_t v2 = {.version = NVML_MEMORY_V2_VERSION};
    nvmlProcessInfo_t three[8];
    nvmlProcessInfo_v2_t two[8];
    nvmlProcessInfo_v1_t one[8];
    nvmlProcessUtilizationSample_t samples[8];
    size_t unused, total;
    unsigned n = 8;
    int ready[2];
    char c;
    EQUAL(pipe(ready), 0);
    pid_t neighbour = fork();
    if (neighbour == 0) {
        setenv("TESSERA_LIMITS", "/dev/null/none", 1);
        begin();
        EQUAL(allocate(6000, NULL), 0);
        EQUAL(CU(cuLaunchKernel)(kernel(400000000), 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(CU(cuCtxSynchronize)(), 0);
        EQUAL(write(ready[1], "x", 1), 1);
        pause();
    }
    close(ready[1]); /* so that a child that fails ends the read */
    EQUAL(read(ready[0], &c, 1), 1);
    begin();
    EQUAL(allocate(100, NULL), 0);
    EQUAL(NVML(nvmlInit_v2)(), 0);
    EQUAL(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device), 0);
    EQUAL(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &n, three), 0);
    CHECK(n == 1 && three[0].pid == (unsigned)getpid());
    n = 8;
    EQUAL(NVML(nvmlDeviceGetComputeRunningProcesses_v2)(device, &n, two), 0);
    CHECK(n == 1 && two[0].pid == (unsigned)getpid());
    n = 8;
    EQUAL(NVML(nvmlDeviceGetComputeRunningProcesses)(device, &n, one), 0);
    CHECK(n == 1 && one[0].pid == (unsigned)getpid());
    n = 8;
    EQUAL(NVML(nvmlDeviceGetProcessUtilization)(device, samples, &n, 0), NVML_ERROR_NOT_FOUND);
    EQUAL(CU(cuMemGetInfo_v2)(&unused, &total), 0);
    CHECK(unused < 3840 * MIB && unused > 3000 * MIB);
    EQUAL(NVML(nvmlDeviceGetMemoryInfo)(device, &v1), 0);
    CHECK(v1.free == unused && v1.total == 8192 * MIB && v1.used == 100 * MIB);
    EQUAL(NVML(nvmlDeviceGetMemoryInfo_v2)(device, &v2), 0);
    CHECK(v2.free == unused && v2.used == 100 * MIB && v2.total == v2.used + v2.free + v2.reserved);
    kill(neighbour, SIGKILL);
    wait_for(neighbour);
}

TEST(utilisation_is_of_the_tile_where_the_agent_says_so, "cores=50", "clock=virtual") {
    nvmlDevice_t device;
    nvmlUtilization_t whole, scaled;
    char command[1024], uuid[64];
    begin();
    CUfunction f = kernel(1000000);
    EQUAL(NVML(nvmlInit_v2)(), 0);
    EQUAL(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device), 0);
    for (uint64_t end = sim_now() + 2000000000ull; sim_now() < end;) {
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    }
    EQUAL(NVML(nvmlDeviceGetUtilizationRates)(device, &whole), 0);
    uuid_of(0, uuid);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s/tessera-limits %s/limits flags=8 card=%s cores=50",
             getenv("TEST_BUILD"), dir(), uuid);
    EQUAL(system(command), 0);
    sim_sleep(30000000);
    EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
    EQUAL(NVML(nvmlDeviceGetUtilizationRates)(device, &scaled), 0);
    CHECK(whole.gpu > 40 && whole.gpu < 60 && scaled.gpu > 80);
}

TEST(hc_lowered_limit_underflows_the_view, "memory=1024", NULL) {
    size_t free_bytes, total;
    nvmlDevice_t device;
    nvmlMemory_t memory;
    begin();
    EQUAL(allocate(800, NULL), 0);
    set_limits("memory=500");
    usleep(60000);
    EQUAL(CU(cuMemGetInfo_v2)(&free_bytes, &total), 0);
    CHECK(free_bytes == 0 && total == 500 * MIB);
    EQUAL(NVML(nvmlInit_v2)(), 0);
    EQUAL(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device), 0);
    EQUAL(NVML(nvmlDeviceGetMemoryInfo)(device, &memory), 0);
    CHECK(memory.used <= memory.total && memory.free == 0);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(usage()->slot[0].gaps & TESSERA_GAP_OVER);
    set_limits("memory=2048");
    EQUAL(allocate(1000, NULL), 0); /* at once: a refusal looks again first */
}

static void two_cards(const char *visible, int wanted) {
    char a[64], b[64], command[1024];
    size_t total;
    uuid_of(0, a);
    uuid_of(1, b);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s/tessera-limits %s/limits card=%s memory=1000 card=%s memory=2000",
             getenv("TEST_BUILD"), dir(), a, b);
    EQUAL(system(command), 0);
    if (visible)
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    begin();
    EQUAL(CU(cuDeviceTotalMem_v2)(&total, 0), 0);
    EQUAL(total, (size_t)wanted * MIB);
    EQUAL(CU(cuMemGetInfo_v2)(&total, &total), 0);
    EQUAL(total, (size_t)wanted * MIB);
    EQUAL(allocate((size_t)wanted + 1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(allocate((size_t)wanted, NULL), 0);
}

TEST(cards_in_their_order, "memory=1", "cards=2") { two_cards(NULL, 1000); }
TEST(hc_visible_devices_1_lifts_the_limit, "memory=1", "cards=2") { two_cards("1", 2000); }
TEST(hc_visible_devices_reversed, "memory=1", "cards=2") { two_cards("1,0", 2000); }
TEST(hc_visible_devices_by_uuid, "memory=1", "cards=2") {
    char b[64];
    uuid_of(1, b);
    two_cards(b, 2000);
}

TEST(a_card_that_was_not_granted_gives_nothing, "memory=1024", "cards=2") {
    CUcontext context;
    EQUAL(CU(cuInit)(0), 0);
    EQUAL(CU(cuDevicePrimaryCtxRetain)(&context, 1), 0);
    EQUAL(CU(cuCtxSetCurrent)(context), 0);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    size_t unused, total;
    nvmlDevice_t device;
    nvmlMemory_t memory;
    EQUAL(CU(cuMemGetInfo_v2)(&unused, &total), 0);
    CHECK(unused == 0 && total == 0);
    EQUAL(CU(cuDeviceTotalMem_v2)(&total, 1), 0);
    EQUAL(total, 0);
    EQUAL(NVML(nvmlInit_v2)(), 0);
    EQUAL(NVML(nvmlDeviceGetHandleByIndex_v2)(1, &device), 0);
    EQUAL(NVML(nvmlDeviceGetMemoryInfo)(device, &memory), 0);
    CHECK(memory.total == 0 && memory.free == 0);
}

/* What the runtime library of CUDA 13 asks for, and what takes memory or launches in every version. */
TEST(the_functions_of_cuda_13_leave_no_gap, "memory=64", "cuda=13050") {
    CUcontext context = begin();
    EQUAL(allocate(1, NULL), 0);
    void *synchronize = lookup("cuCtxSynchronize", 13000, 0, NULL);
    CHECK(in_hook(synchronize) && synchronize == driver_get("cuCtxSynchronize_v2"));
    EQUAL(((PFN_cuCtxSynchronize_v2)synchronize)(context), 0);
    CHECK(lookup("cuCtxSynchronize", 12000, 0, NULL) == driver_get("cuCtxSynchronize"));
    CHECK(in_hook(lookup("cuGraphAddNode", 13040, 0, NULL)) && in_hook(lookup("cuStreamBeginRecaptureToGraph", 13030, 2, NULL)));
    EQUAL(usage()->slot[0].gaps, 0);
}

TEST(a_graph_node_of_the_newest_version_must_fit, "memory=64", "cuda=13050") {
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    params.alloc.poolProps = (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    params.alloc.bytesize = 65 * MIB;
    begin();
    EQUAL(CU(cuGraphCreate)(&graph, 0), 0);
    EQUAL(CU(cuGraphAddNode_v3)(&node, graph, NULL, NULL, 0, &params), CUDA_ERROR_OUT_OF_MEMORY);
}

/* A new version of a function that takes memory is a gap; of one that waits or looks it is none. */
TEST(unknown_versions_are_a_gap_only_where_limits_may_not_hold, "memory=64", "cuda=14000") {
    begin();
    EQUAL(allocate(1, NULL), 0);
    CHECK(lookup("cuEventSynchronize", 14000, 0, NULL) && !in_hook(lookup("cuEventSynchronize", 14000, 0, NULL)));
    EQUAL(usage()->slot[0].gaps, 0);
    CHECK(lookup("cuMemAlloc", 14000, 0, NULL) && !in_hook(lookup("cuMemAlloc", 14000, 0, NULL)));
    EQUAL(usage()->slot[0].gaps, TESSERA_GAP_SYMBOL);
}

/* The addresses that the lookup hands out need not be those that dlsym finds: then names are what is left. */
TEST(limits_hold_where_the_lookup_has_addresses_of_its_own, "memory=64", "thunks=1 cuda=13050") {
    static const struct {
        const char *base;
        int version;
        cuuint64_t flags;
        const char *symbol;
    } wanted[] = {{"cuMemAlloc", 12000, 0, "cuMemAlloc_v2"}, {"cuMemAlloc", 2000, 0, "cuMemAlloc"},
                  {"cuLaunchKernel", 12000, 0, "cuLaunchKernel"}, {"cuLaunchKernel", 12000, 1, "cuLaunchKernel"},
                  {"cuLaunchKernel", 12000, 2, "cuLaunchKernel_ptsz"}, {"cuMemCreate", 12000, 2, "cuMemCreate"},
                  {"cuMemAllocAsync", 13000, 2, "cuMemAllocAsync_ptsz"}, {"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
                  {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"}, {"cuGraphAddNode", 12020, 0, "cuGraphAddNode"},
                  {"cuGraphAddNode", 13030, 0, "cuGraphAddNode_v2"}, {"cuGraphAddNode", 13050, 0, "cuGraphAddNode_v3"},
                  {"cuGraphInstantiate", 10000, 0, "cuGraphInstantiate"}, {"cuGraphInstantiate", 11080, 0, "cuGraphInstantiate_v2"},
                  {"cuGraphInstantiate", 12080, 0, "cuGraphInstantiateWithFlags"}, {"cuCtxCreate", 11040, 0, "cuCtxCreate_v3"},
                  {"cuStreamBeginCapture", 10000, 0, "cuStreamBeginCapture"}, {"cuMemGetInfo", 13050, 0, "cuMemGetInfo_v2"}};
    begin();
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = lookup(wanted[i].base, wanted[i].version, wanted[i].flags, NULL);
        if (found != driver_get(wanted[i].symbol))
            fprintf(stderr, "    %s %d\n", wanted[i].base, wanted[i].version);
        CHECK(found == driver_get(wanted[i].symbol) && in_hook(found));
    }
    CHECK(!in_hook(lookup("cuCtxGetCurrent", 12000, 0, NULL)));
    CUdeviceptr p;
    PFN_cuMemAlloc_v2 call = (PFN_cuMemAlloc_v2)(uintptr_t)lookup("cuMemAlloc", 12000, 0, NULL);
    EQUAL(call(&p, 65 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(call(&p, 64 * MIB), 0);
    EQUAL(usage()->slot[0].gaps, 0);
}

/* What is newer than the library is never taken for what it knows: the arguments may be others. */
TEST(a_version_of_the_future_is_not_known_by_name, "memory=64", "thunks=1 cuda=14000") {
    begin();
    EQUAL(allocate(1, NULL), 0);
    CHECK(in_hook(lookup("cuMemAlloc", 13050, 0, NULL)));
    EQUAL(usage()->slot[0].gaps, 0);
    CHECK(!in_hook(lookup("cuMemAlloc", 14000, 0, NULL)));
    EQUAL(usage()->slot[0].gaps, TESSERA_GAP_SYMBOL);
}
