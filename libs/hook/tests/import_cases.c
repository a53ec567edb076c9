/* SIGKILL at every point of taking over another container's memory: what was charged for it is given
 * back to the importer's container, and the exporter's account never moves. */
#include <string.h>
#include <sys/stat.h>

#include "harness.h"

#define SHARED 300

/* Another container, with files of its own. */
static void make_other(char folder[512]) {
    char uuid[64], command[1400];
    snprintf(folder, 512, "%s/other", dir());
    EQUAL(mkdir(folder, 0777), 0);
    uuid_of(0, uuid);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s/tessera-limits %s/limits card=%s memory=1024",
             getenv("TEST_BUILD"), folder, uuid);
    EQUAL(system(command), 0);
}

/* A program in that container; it dies at its n-th point, or at none. */
static int run_there(const char *folder, const char *program, int n) {
    pid_t pid = fork();
    if (pid == 0) {
        char path[600];
        setenv("TEST_DIR", folder, 1);
        snprintf(path, sizeof path, "%s/limits", folder);
        setenv("TESSERA_LIMITS", path, 1);
        snprintf(path, sizeof path, "%s/usage", folder);
        setenv("TESSERA_USAGE", path, 1);
        snprintf(path, sizeof path, "%s/points/libtessera.so", getenv("TEST_BUILD"));
        setenv("LD_PRELOAD", path, 1);
        setenv("TEST_CASE", program, 1);
        if (n) {
            snprintf(path, sizeof path, "%d", n);
            setenv("TESSERA_KILL_AT", path, 1);
        }
        execl("/proc/self/exe", "cases", "x", (char *)NULL);
        _exit(127);
    }
    return wait_for(pid);
}

static void sweep(const char *program, int least) {
    char folder[512];
    int died = 0;
    make_other(folder);
    for (int n = 1; n < 400; n++) {
        int status = run_there(folder, program, n);
        if (status == 0)
            break;
        EQUAL(status, 137);
        died++;
        EQUAL(run_there(folder, "the_other_container_is_empty", 0), 0);
        EQUAL(charged(), SHARED * MIB);
    }
    fprintf(stderr, "    %d points\n", died);
    CHECK(died >= least);
}

TEST(the_other_container_is_empty, "memory=1024", NULL) {
    begin();
    if (!getenv("TEST_SHARED"))
        return; /* by itself it shows nothing */
    EQUAL(allocate(1024, NULL), 0);
    EQUAL(charged(), 1024 * MIB);
}

TEST(killed_at_every_point_of_an_ipc_import, "memory=1024", NULL) {
    CUipcMemHandle handle;
    CUdeviceptr p;
    char text[2 * sizeof handle + 1];
    begin();
    EQUAL(allocate(SHARED, &p), 0);
    EQUAL(CU(cuIpcGetMemHandle)(&handle, p), 0);
    for (size_t i = 0; i < sizeof handle; i++)
        snprintf(text + 2 * i, 3, "%02x", ((unsigned char *)&handle)[i]);
    setenv("TEST_SHARED", text, 1);
    sweep("die_in_an_ipc_import", 6);
}
TEST(die_in_an_ipc_import, "memory=1024", NULL) {
    CUipcMemHandle handle;
    CUdeviceptr p;
    const char *text = getenv("TEST_SHARED");
    if (!text)
        return;
    for (size_t i = 0; i < sizeof handle; i++) {
        unsigned byte;
        EQUAL(sscanf(text + 2 * i, "%2x", &byte), 1);
        ((unsigned char *)&handle)[i] = (unsigned char)byte;
    }
    begin();
    for (int pass = 0; pass < 2; pass++) {
        EQUAL(CU(cuIpcOpenMemHandle_v2)(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), 0);
        EQUAL(charged(), SHARED * MIB);
        EQUAL(CU(cuIpcCloseMemHandle)(p), 0);
        EQUAL(charged(), 0);
    }
}

TEST(killed_at_every_point_of_importing_a_shared_handle, "memory=1024", NULL) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    char text[16];
    int fd;
    begin();
    EQUAL(CU(cuMemCreate)(&handle, SHARED * MIB, &prop, 0), 0);
    EQUAL(CU(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), 0);
    EQUAL(dup2(fd, 100), 100); /* kept over exec */
    snprintf(text, sizeof text, "%d", 100);
    setenv("TEST_SHARED", text, 1);
    sweep("die_in_importing_a_shared_handle", 6);
}
TEST(die_in_importing_a_shared_handle, "memory=1024", NULL) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    const char *text = getenv("TEST_SHARED");
    if (!text)
        return;
    begin();
    EQUAL(CU(cuMemAddressReserve)(&at, SHARED * MIB, 0, 0, 0), 0);
    for (int pass = 0; pass < 2; pass++) {
        EQUAL(CU(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)atoi(text), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), 0);
        EQUAL(CU(cuMemMap)(at, SHARED * MIB, 0, handle, 0), 0);
        EQUAL(charged(), SHARED * MIB);
        EQUAL(CU(cuMemRelease)(handle), 0);
        EQUAL(CU(cuMemUnmap)(at, SHARED * MIB), 0);
        EQUAL(charged(), 0);
    }
}
