/* What has no room, or cannot be told: nothing is given without being counted. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "harness.h"

#define MS 1000000ull

static struct tessera_usage *writable(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/usage", dir());
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    struct tessera_usage *at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    return at;
}

/* Another process of the container, which has the usage file mapped and lives until it is killed. */
static pid_t neighbour(void) {
    int ready[2];
    char c;
    EQUAL(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        begin();
        EQUAL(allocate(1, NULL), 0);
        EQUAL(write(ready[1], "x", 1), 1);
        pause();
    }
    EQUAL(read(ready[0], &c, 1), 1);
    return pid;
}

TEST(a_card_whose_uuid_cannot_be_read_gives_nothing, "memory=1024 cores=50", "nameless=1") {
    size_t unused = 1, total = 1;
    CUmemoryPool pool;
    CUdeviceptr p;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    begin();
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAllocAsync)(&p, MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemPoolCreate)(&pool, &props), 0);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemGetInfo_v2)(&unused, &total), 0);
    CHECK(unused == 0 && total == 0);
    EQUAL(CU(cuLaunchKernel)(kernel(MS), 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
    EQUAL(CU(cuDevicePrimaryCtxRelease_v2)(0), 0);
}

TEST(a_device_that_is_not_there_is_refused_by_the_driver, "memory=1024", NULL) {
    size_t bytes;
    CHECK(CU(cuDeviceTotalMem_v2)(&bytes, 0) == CUDA_ERROR_NOT_INITIALIZED);
    begin();
    CHECK(CU(cuDeviceTotalMem_v2)(&bytes, 7) == CUDA_ERROR_INVALID_DEVICE);
}

TEST(a_card_beyond_those_that_the_usage_file_holds_gives_nothing, "memory=1024", NULL) {
    size_t total;
    pid_t pid = neighbour();
    struct tessera_usage *file = writable();
    for (int i = 0; i < (int)TESSERA_CARDS; i++) {
        memset(file->card[i].uuid, 0, sizeof file->card[i].uuid);
        snprintf((char *)file->card[i].uuid, TESSERA_UUID_BYTES, "GPU-of-others-%d", i);
        file->card[i].used = 1;
    }
    begin();
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuDeviceTotalMem_v2)(&total, 0), 0);
    EQUAL(total, 0);
    kill(pid, SIGKILL);
    wait_for(pid);
}

TEST(launches_are_limited_while_no_slot_is_free, "memory=1024 cores=50", "clock=virtual") {
    pid_t pid = neighbour();
    struct tessera_usage *file = writable();
    for (unsigned i = 0; i < TESSERA_SLOTS; i++) {
        file->slot[i].pid = pid;
        file->slot[i].started = 0;
        file->slot[i].state = TESSERA_SLOT_LIVE;
    }
    begin();
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CUfunction f = kernel(5 * MS);
    uint64_t start = sim_now(), busy = sim_busy(getpid());
    while (sim_now() < start + 4000 * MS) {
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    }
    double got = 100.0 * (double)(sim_busy(getpid()) - busy) / (double)(sim_now() - start);
    fprintf(stderr, "    %.2f of 50 %%\n", got);
    CHECK(got > 46 && got < 54);
    file->slot[7].state = TESSERA_SLOT_FREE;
    EQUAL(allocate(1, NULL), 0);
    kill(pid, SIGKILL);
    wait_for(pid);
}

TEST(more_pools_than_a_table_holds_are_limited, "memory=1024", "memory=16g") {
    enum { MANY = 300 };
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool[MANY];
    CUdeviceptr p;
    int given = 0;
    begin();
    for (int i = 0; i < MANY; i++)
        EQUAL(CU(cuMemPoolCreate)(&pool[i], &props), 0);
    for (int i = MANY - 1; i >= 0; i--) {
        CUresult r = CU(cuMemAllocFromPoolAsync)(&p, 32 * MIB, pool[i], NULL);
        CHECK(r == 0 || r == CUDA_ERROR_OUT_OF_MEMORY);
        given += r == 0;
    }
    EQUAL(given, 32);
    EQUAL(charged(), 1024 * MIB);
    for (int i = 0; i < MANY; i++)
        EQUAL(CU(cuMemPoolDestroy)(pool[i]), 0);
}
