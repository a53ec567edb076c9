/* Memory of another process, another container, another API. */
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
    CUmemPoolPtrExportData pointer;
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

static CUmemoryPool import_the_pool(const struct given *given) {
    CUmemoryPool pool;
    CUdeviceptr p;
    EQUAL(CU(cuMemPoolImportFromShareableHandle)(&pool, (void *)(intptr_t)given->fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), 0);
    /* Nobody allocates there but its maker: the driver says so, and nothing is charged or denied, even what does not fit. */
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, MIB, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, 4096 * MIB, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    return pool;
}

static void import_from_pool(const struct given *given, uint64_t here, uint64_t shown) {
    CUmemPoolPtrExportData data = given->pointer;
    CUdeviceptr p;
    CUmemoryPool pool = import_the_pool(given);
    for (int pass = 0; pass < 2; pass++) {
        EQUAL(CU(cuMemPoolImportPointer)(&p, pool, &data), 0);
        EQUAL(charged(), here);
        EQUAL(imported(), shown);
        EQUAL(pass ? CU(cuMemFreeAsync)(p, NULL) : CU(cuMemFree_v2)(p), 0);
        EQUAL(charged(), here && !shown ? 0 : here);
        EQUAL(imported(), 0);
    }
}

static void import_too_much_from_pool(const struct given *given, uint64_t here, uint64_t shown) {
    CUmemPoolPtrExportData data = given->pointer;
    CUdeviceptr p;
    (void)here, (void)shown;
    EQUAL(CU(cuMemPoolImportPointer)(&p, import_the_pool(given), &data), CUDA_ERROR_OUT_OF_MEMORY);
}

static void export_from_pool(struct given *given, CUdeviceptr *p) {
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    EQUAL(CU(cuMemPoolCreate)(&pool, &props), 0);
    EQUAL(CU(cuMemAllocFromPoolAsync)(p, 300 * MIB, pool, NULL), 0);
    EQUAL(CU(cuMemPoolExportToShareableHandle)(&given->fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), 0);
    EQUAL(CU(cuMemPoolExportPointer)(&given->pointer, *p), 0);
}

/* The parent exports, the child imports: `elsewhere` in another container with that limit. */
static void share(const char *elsewhere, void (*import)(const struct given *, uint64_t, uint64_t), uint64_t here,
                  uint64_t shown, uint64_t left) {
    int go[2], back[2];
    struct given given = {.fd = -1};
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
    if (import == import_ipc || import == import_ipc_of_the_first_version || import == import_too_much) {
        EQUAL(allocate(300, &p), 0);
        EQUAL(CU(cuIpcGetMemHandle)(&given.ipc, p), 0);
    } else if (import == import_from_pool || import == import_too_much_from_pool) {
        export_from_pool(&given, &p);
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

TEST(memory_of_a_pool_within_a_container_is_charged_to_the_exporter, "memory=1024", "pool_chunk=2m") {
    share(NULL, import_from_pool, 300 * MIB, 300 * MIB, 300 * MIB);
}
TEST(memory_of_a_pool_of_another_container_is_charged_to_the_importer, "memory=1024", "pool_chunk=2m") {
    share("memory=1024", import_from_pool, 300 * MIB, 0, 0);
}
TEST(memory_of_a_pool_of_another_container_must_fit, "memory=1024", "pool_chunk=2m") {
    share("memory=200", import_too_much_from_pool, 0, 0, 0);
}
TEST(exported_memory_of_a_pool_leaves_room_for_others_when_it_is_freed, "memory=1024", NULL) {
    struct given given = {.fd = -1};
    CUdeviceptr p;
    begin();
    for (int pass = 0; pass < 2; pass++) {
        int names = 0;
        export_from_pool(&given, &p);
        EQUAL(pass ? CU(cuMemFreeAsync)(p, NULL) : CU(cuMemFree_v2)(p), 0);
        for (unsigned i = 0; i < TESSERA_EXPORTS; i++)
            names += usage()->exported[i] != 0;
        EQUAL(names, 0);
    }
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
