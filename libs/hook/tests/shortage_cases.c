/* A share has room and the card does not: others have the memory, and the agent may take it from them. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

#define MS 1000000ull
#define CARD "memory=4g context=0"
#define RECLAIM " card_flags=8"

static struct tessera_card_usage record(void) {
    const struct tessera_usage *now = usage();
    struct tessera_card_usage found = now->card[0];
    munmap((void *)(uintptr_t)now, TESSERA_USAGE_SIZE);
    return found;
}

/* Another container, which has taken that much once this returns. */
static pid_t neighbour(size_t mib) {
    int ready[2];
    char c, path[512];
    EQUAL(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        snprintf(path, sizeof path, "%s/no-limits", dir());
        setenv("TESSERA_LIMITS", path, 1);
        begin();
        EQUAL(allocate(mib, NULL), 0);
        EQUAL(write(ready[1], "x", 1), 1);
        for (;;)
            pause();
    }
    EQUAL(read(ready[0], &c, 1), 1);
    return pid;
}

static void end(pid_t pid) {
    EQUAL(kill(pid, SIGKILL), 0);
    EQUAL(wait_for(pid), 137);
}

static void take_2000(void *unused) {
    (void)unused;
    begin();
    _exit((int)allocate(2000, NULL));
}

static int wants_2000(void *unused) {
    (void)unused;
    return usage_is_there() && record().wanted_at_ns && record().wanted_bytes == 2000 * MIB;
}

TEST(memory_that_others_have_is_waited_for_until_they_end, "memory=3000" RECLAIM, CARD) {
    pid_t other = neighbour(3000), owner = child(take_2000, NULL);
    CHECK(until(wants_2000, NULL));
    end(other);
    EQUAL(wait_for(owner), 0);
    EQUAL(record().wanted_at_ns, 0);
    EQUAL(record().waited_for_others, 1);
    EQUAL(record().failed_for_others, 0);
    EQUAL(record().denials, 0);
}

TEST(memory_that_others_have_is_not_waited_for_where_nobody_takes_it_from_them, "memory=3000", CARD) {
    neighbour(3000);
    begin();
    EQUAL(allocate(2000, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(record().wanted_at_ns, 0);
    EQUAL(record().waited_for_others, 0);
    EQUAL(record().failed_for_others, 1);
    EQUAL(charged(), 0);
}

TEST(a_wait_for_others_memory_ends_when_the_agent_has_nobody_left, "memory=3000" RECLAIM, CARD) {
    neighbour(3000);
    pid_t owner = child(take_2000, NULL);
    CHECK(until(wants_2000, NULL));
    uint64_t start = harness_now();
    set_limits("memory=3000");
    EQUAL(wait_for(owner), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(harness_now() - start < 4000 * MS); /* and not of the five seconds */
    EQUAL(record().wanted_at_ns, 0);
    EQUAL(record().failed_for_others, 1);
}

TEST(what_a_share_has_no_room_for_is_not_waited_for, "memory=1000" RECLAIM, CARD) {
    neighbour(3000);
    begin();
    EQUAL(allocate(2000, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(record().denials, 1);
    EQUAL(record().failed_for_others, 0);
    EQUAL(record().wanted_bytes, 0);
}

TEST(own_idle_pools_give_back_before_others_memory_is_waited_for, "memory=3000" RECLAIM, CARD) {
    CUdeviceptr p;
    CUmemoryPool pool;
    cuuint64_t keep = UINT64_MAX;
    neighbour(1500);
    begin();
    EQUAL(CU(cuDeviceGetDefaultMemPool)(&pool, 0), 0);
    EQUAL(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), 0);
    EQUAL(CU(cuMemAllocAsync)(&p, 1600 * MIB, NULL), 0);
    EQUAL(CU(cuMemFreeAsync)(p, NULL), 0);
    EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    EQUAL(allocate(1400, NULL), 0);
    EQUAL(record().waited_for_others, 0);
}

/* Every way to allocate waits five seconds and no longer, and is then refused as the driver refused it. */
static CUresult by_create(void) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return CU(cuMemCreate)(&handle, 2000 * MIB, &prop, 0);
}
static CUresult by_pitch(void) {
    CUdeviceptr p;
    size_t pitch;
    return CU(cuMemAllocPitch_v2)(&p, &pitch, 1 << 20, 2000, 4);
}
static CUresult by_array(void) {
    CUarray a;
    CUDA_ARRAY3D_DESCRIPTOR cube = {.Width = 1000, .Height = 1024, .Depth = 128, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    return CU(cuArray3DCreate_v2)(&a, &cube);
}
static CUresult by_mipmap(void) {
    CUmipmappedArray m;
    CUDA_ARRAY3D_DESCRIPTOR cube = {.Width = 1000, .Height = 1024, .Depth = 128, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    return CU(cuMipmappedArrayCreate)(&m, &cube, 1);
}
static CUresult by_pool(void) {
    CUdeviceptr p;
    return CU(cuMemAllocAsync)(&p, 2000 * MIB, NULL);
}
static CUresult by_the_first_version(void) {
    CUdeviceptr_v1 p;
    return CU(cuMemAlloc)(&p, 2000u << 20);
}
static CUresult plainly(void) {
    return allocate(2000, NULL);
}

TEST(others_memory_is_waited_for_five_seconds_and_no_longer, "memory=3000" RECLAIM, CARD " clock=virtual") {
    CUresult (*const ways[])(void) = {plainly, by_create, by_pitch, by_array, by_mipmap, by_pool, by_the_first_version};
    uint64_t count = sizeof ways / sizeof *ways;
    neighbour(3000);
    begin();
    for (uint64_t i = 0; i < count; i++) {
        uint64_t start = sim_now();
        EQUAL(ways[i](), CUDA_ERROR_OUT_OF_MEMORY);
        uint64_t waited = sim_now() - start;
        fprintf(stderr, "    way %llu: %llu ms\n", (unsigned long long)i, (unsigned long long)(waited / MS));
        CHECK(waited >= 5000 * MS && waited < 5200 * MS);
        EQUAL(record().failed_for_others, i + 1);
        EQUAL(record().wanted_at_ns, 0);
        EQUAL(charged(), 0);
    }
    EQUAL(record().denials, 0);
}
