/* Many IPC handles between processes of one container: each is charged once, where it was made. */
#include <sys/wait.h>

#include "harness.h"

#define HANDLES 1200

static void write_all(int fd, const void *at, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const char *)at + done, size - done);
        CHECK(n > 0);
        done += (size_t)n;
    }
}

static void read_all(int fd, void *at, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, (char *)at + done, size - done);
        CHECK(n > 0);
        done += (size_t)n;
    }
}

static void export_all(CUdeviceptr *p, CUipcMemHandle *handle) {
    for (int i = 0; i < HANDLES; i++) {
        EQUAL(allocate(1, &p[i]), 0);
        EQUAL(CU(cuIpcGetMemHandle)(&handle[i], p[i]), 0);
    }
}

/* `rounds`: how often as much was exported and freed before. */
static void charged_once(int rounds) {
    static CUdeviceptr p[HANDLES];
    static CUipcMemHandle handle[HANDLES];
    int there[2], back[2];
    char c;
    EQUAL(pipe(there), 0);
    EQUAL(pipe(back), 0);
    pid_t importer = fork();
    if (importer == 0) {
        CUdeviceptr mine;
        read_all(there[0], handle, sizeof handle);
        begin();
        for (int i = 0; i < HANDLES; i++)
            EQUAL(CU(cuIpcOpenMemHandle_v2)(&mine, handle[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), 0);
        write_all(back[1], "x", 1);
        read_all(there[0], &c, 1);
        _exit(0);
    }
    begin();
    for (int round = 0; round < rounds; round++) {
        export_all(p, handle);
        for (int i = 0; i < HANDLES; i++)
            EQUAL(CU(cuMemFree_v2)(p[i]), 0);
    }
    export_all(p, handle);
    write_all(there[1], handle, sizeof handle);
    read_all(back[0], &c, 1);
    EQUAL(charged() / MIB, 2 * HANDLES);
    write_all(there[1], "x", 1);
    EQUAL(wait_for(importer), 0);
    EQUAL(charged() / MIB, 2 * HANDLES);
}

TEST(twelve_hundred_ipc_handles_are_charged_once, "memory=4096", NULL) { charged_once(0); }
TEST(ipc_handles_of_freed_memory_leave_room_for_others, "memory=4096", NULL) { charged_once(3); }
