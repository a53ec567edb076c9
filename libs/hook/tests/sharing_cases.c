/* Memory of another process, another container, another API; contexts and code. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* The process that calls this belongs to another container from now on. */
static void other_container(const char *memory) {
    char path[512], uuid[64], command[1400];
    snprintf(path, sizeof path, "%s/other", dir());
    EQUAL(mkdir(path, 0777), 0);
    uuid_of(0, uuid);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s/tessera-limits %s/limits card=%s %s", getenv("TEST_BUILD"), path,
             uuid, memory);
    EQUAL(system(command), 0);
    setenv("TEST_DIR", path, 1);
    snprintf(path, sizeof path, "%s/limits", dir());
    setenv("TESSERA_LIMITS", path, 1);
    snprintf(path, sizeof path, "%s/usage", dir());
    setenv("TESSERA_USAGE", path, 1);
}

static uint64_t imported(void) {
    uint64_t sum = 0;
    for (int i = 0; i < 8; i++)
        sum += usage()->slot[i].state == TESSERA_SLOT_LIVE ? usage()->slot[i].imported_bytes : 0;
    return sum;
}

struct given {
    CUipcMemHandle ipc;
    int fd;
};

static void import_ipc(const struct given *given, uint64_t here, uint64_t shown) {
    CUdeviceptr p, again;
    EQUAL(CU(cuIpcOpenMemHandle_v2)(&p, given->ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), 0);
    EQUAL(CU(cuIpcOpenMemHandle_v2)(&again, given->ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), 0);
    EQUAL(charged(), here);
    EQUAL(imported(), shown);
    EQUAL(CU(cuIpcCloseMemHandle)(p), 0);
    EQUAL(charged(), here);
    EQUAL(CU(cuIpcCloseMemHandle)(again), 0);
    EQUAL(imported(), 0);
}

static void import_ipc_of_the_first_version(const struct given *given, uint64_t here, uint64_t shown) {
    CUdeviceptr p;
    EQUAL(CU(cuIpcOpenMemHandle)(&p, given->ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), 0);
    EQUAL(charged(), here);
    EQUAL(imported(), shown);
    EQUAL(CU(cuIpcCloseMemHandle)(p), 0);
    EQUAL(charged(), 0);
}

static void import_vmm(const struct given *given, uint64_t here, uint64_t shown) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    EQUAL(CU(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)given->fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), 0);
    EQUAL(CU(cuMemAddressReserve)(&at, 300 * MIB, 0, 0, 0), 0);
    EQUAL(CU(cuMemMap)(at, 300 * MIB, 0, handle, 0), 0);
    EQUAL(CU(cuMemRelease)(handle), 0);
    EQUAL(charged(), here);
    EQUAL(imported(), shown);
    EQUAL(CU(cuMemUnmap)(at, 300 * MIB), 0);
    EQUAL(imported(), 0);
}

static void import_too_much(const struct given *given, uint64_t here, uint64_t shown) {
    CUdeviceptr p;
    (void)here, (void)shown;
    EQUAL(CU(cuIpcOpenMemHandle_v2)(&p, given->ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_OUT_OF_MEMORY);
}
static void import_too_much_vmm(const struct given *given, uint64_t here, uint64_t shown) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    (void)here, (void)shown;
    EQUAL(CU(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)given->fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), 0);
    EQUAL(CU(cuMemAddressReserve)(&at, 300 * MIB, 0, 0, 0), 0);
    EQUAL(CU(cuMemMap)(at, 300 * MIB, 0, handle, 0), CUDA_ERROR_OUT_OF_MEMORY);
}
/* The parent exports, the child imports: `elsewhere` in another container with that limit. */
static void share(const char *elsewhere, void (*import)(const struct given *, uint64_t, uint64_t), uint64_t here,
                  uint64_t shown, uint64_t left) {
    int go[2], back[2];
    struct given given;
    char c;
    EQUAL(pipe(go), 0);
    EQUAL(pipe(back), 0);
    pid_t pid = fork(); /* it takes the descriptor out of our /proc entry */
    if (pid == 0) {
        EQUAL(read(go[0], &given, sizeof given), sizeof given);
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/fd/%d", getppid(), given.fd);
        given.fd = given.fd >= 0 ? open(path, O_RDWR) : -1;
        if (elsewhere)
            other_container(elsewhere);
        begin();
        import(&given, here, shown);
        EQUAL(charged(), left);
        _exit(write(back[1], "x", 1) != 1);
    }
    begin();
    CUdeviceptr p;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    given.fd = -1;
    if (import == import_ipc || import == import_ipc_of_the_first_version || import == import_too_much) {
        EQUAL(allocate(300, &p), 0);
        EQUAL(CU(cuIpcGetMemHandle)(&given.ipc, p), 0);
    } else {
        EQUAL(CU(cuMemCreate)(&handle, 300 * MIB, &prop, 0), 0);
        EQUAL(CU(cuMemExportToShareableHandle)(&given.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), 0);
    }
    EQUAL(write(go[1], &given, sizeof given), sizeof given);
    EQUAL(wait_for(pid), 0);
    EQUAL(read(back[0], &c, 1), 1);
    EQUAL(charged(), 300 * MIB);
}

TEST(ipc_within_a_container_is_charged_to_the_exporter, "memory=1024", NULL) {
    share(NULL, import_ipc, 300 * MIB, 300 * MIB, 300 * MIB);
}
TEST(ipc_from_another_container_is_charged_to_the_importer, "memory=1024", NULL) {
    share("memory=1024", import_ipc, 300 * MIB, 0, 0);
}
TEST(ipc_by_the_first_version_is_charged_too, "memory=1024", NULL) {
    share("memory=1024", import_ipc_of_the_first_version, 300 * MIB, 0, 0);
}
TEST(shared_handles_within_a_container_are_charged_to_the_exporter, "memory=1024", NULL) {
    share(NULL, import_vmm, 300 * MIB, 300 * MIB, 300 * MIB);
}
TEST(shared_handles_from_another_container_are_charged_to_the_importer, "memory=1024", NULL) {
    share("memory=1024", import_vmm, 300 * MIB, 0, 0);
}

TEST(ipc_from_another_container_must_fit, "memory=1024", NULL) { share("memory=200", import_too_much, 0, 0, 0); }
TEST(shared_handles_from_another_container_must_fit, "memory=1024", NULL) { share("memory=200", import_too_much_vmm, 0, 0, 0); }

TEST(external_memory_is_charged_to_whoever_imports_it, "memory=1024", NULL) {
    CUexternalMemory memory;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 600 * MIB};
    begin();
    EQUAL(CU(cuImportExternalMemory)(&memory, &desc), 0);
    EQUAL(charged(), 600 * MIB);
    EQUAL(usage()->slot[0].bytes[TESSERA_OTHER], 600 * MIB);
    EQUAL(allocate(500, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuDestroyExternalMemory)(memory), 0);
    EQUAL(charged(), 0);
    desc.size = 1025 * MIB;
    EQUAL(CU(cuImportExternalMemory)(&memory, &desc), CUDA_ERROR_OUT_OF_MEMORY);
    desc.size = MIB;
    desc.type = (CUexternalMemoryHandleType)99;
    CHECK(CU(cuImportExternalMemory)(&memory, &desc) != 0);
    EQUAL(charged(), 0);
}

static CUgreenCtx green(void) {
    CUgreenCtx context;
    CUdevResourceDesc desc;
    CUdevResource half = {0};
    EQUAL(CU(cuDevResourceGenerateDesc)(&desc, &half, 1), 0);
    EQUAL(CU(cuGreenCtxCreate)(&context, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM), 0);
    return context;
}

TEST(contexts_are_shown_as_overhead_not_charged, "memory=1024", "context=300m") {
    CUcontext second;
    begin();
    EQUAL(CU(cuCtxCreate_v2)(&second, 0, 0), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 300 * MIB); /* the first one is NVML's to see */
    EQUAL(usage()->slot[0].contexts, 2);
    CUgreenCtx third = green();
    EQUAL(usage()->slot[0].overhead_bytes, 600 * MIB);
    EQUAL(usage()->slot[0].contexts, 3);
    EQUAL(charged(), 0);
    EQUAL(CU(cuGreenCtxDestroy)(third), 0);
    EQUAL(CU(cuCtxDestroy_v2)(second), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 0);
    EQUAL(usage()->slot[0].contexts, 1);
}

TEST(hc_contexts_are_never_charged_where_they_should_be, "memory=1024 card_flags=2", "context=300m") {
    CUcontext second;
    begin();
    EQUAL(charged(), 300 * MIB);
    EQUAL(usage()->slot[0].bytes[TESSERA_CONTEXT], 300 * MIB);
    EQUAL(CU(cuCtxCreate_v2)(&second, 0, 0), 0);
    EQUAL(charged(), 600 * MIB);
    EQUAL(allocate(500, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuCtxDestroy_v2)(second), 0);
    EQUAL(charged(), 300 * MIB);
    EQUAL(CU(cuDevicePrimaryCtxRelease_v2)(0), 0);
    EQUAL(charged(), 0);
}

TEST(hc_a_second_release_of_the_primary_context_is_the_one_that_counts, "memory=1024 card_flags=2", "context=300m") {
    CUcontext context;
    begin();
    EQUAL(CU(cuDevicePrimaryCtxRetain)(&context, 0), 0);
    EQUAL(CU(cuDevicePrimaryCtxRelease_v2)(0), 0);
    EQUAL(charged(), 300 * MIB);
    EQUAL(usage()->slot[0].contexts, 1);
    EQUAL(CU(cuDevicePrimaryCtxRelease_v2)(0), 0);
    EQUAL(charged(), 0);
}

TEST(code_is_overhead_until_it_is_unloaded, "memory=1024", "module=20m lazy=0") {
    CUmodule module;
    CUlibrary library;
    char path[512];
    begin();
    EQUAL(CU(cuModuleLoadData)(&module, "tessera-sim-module\nkernel spin ns=5\n"), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 20 * MIB);
    snprintf(path, sizeof path, "%s/code", dir());
    FILE *file = fopen(path, "w");
    fputs("tessera-sim-module\nkernel spin ns=5\n", file);
    fclose(file);
    EQUAL(CU(cuLibraryLoadFromFile)(&library, path, NULL, NULL, 0, NULL, NULL, 0), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 40 * MIB);
    EQUAL(CU(cuModuleUnload)(module), 0);
    EQUAL(CU(cuLibraryUnload)(library), 0);
    EQUAL(usage()->slot[0].overhead_bytes, 0);
    EQUAL(charged(), 0);
}

TEST(code_is_charged_where_the_policy_says_so, "memory=1024 card_flags=2", "module=20m context=100m lazy=0") {
    CUmodule module;
    begin();
    EQUAL(CU(cuModuleLoadData)(&module, "tessera-sim-module\nkernel spin ns=5\n"), 0);
    EQUAL(charged(), 120 * MIB);
    EQUAL(CU(cuModuleUnload)(module), 0);
    EQUAL(charged(), 100 * MIB);
}
