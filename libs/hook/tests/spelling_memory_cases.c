/* Memory by every spelling of a function is limited as by the one that everybody uses: first versions, the
 * twins of the per-thread default stream. */
#include "harness.h"

TEST(memory_of_the_first_version_is_limited, "memory=64", NULL) {
    CUdeviceptr_v1 p, q;
    unsigned pitch;
    begin();
    EQUAL(CU(cuMemAlloc)(&p, 65 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAlloc)(&p, 20 * MIB), 0);
    EQUAL(charged(), 20 * MIB);
    EQUAL(CU(cuMemAllocPitch)(&q, &pitch, 1 << 20, 60, 4), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAllocPitch)(&q, &pitch, 1 << 20, 30, 4), 0);
    EQUAL(charged(), 50 * MIB);
    EQUAL(CU(cuMemFree)(p), 0);
    EQUAL(CU(cuMemFree)(q), 0);
    EQUAL(charged(), 0);
}

TEST(arrays_of_the_first_version_are_limited, "memory=64", NULL) {
    CUarray a;
    CUDA_ARRAY_DESCRIPTOR_v1 flat = {.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR_v1 cube = {.Width = 256, .Height = 256, .Depth = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    begin();
    EQUAL(CU(cuArrayCreate)(&a, &flat), 0);
    CHECK(charged() >= 16 * MIB && charged() < 17 * MIB);
    EQUAL(CU(cuArrayDestroy)(a), 0);
    EQUAL(CU(cuArray3DCreate)(&a, &cube), 0);
    CHECK(charged() >= 16 * MIB && charged() < 17 * MIB);
    flat.Height = 4096;
    EQUAL(CU(cuArrayCreate)(&a, &flat), CUDA_ERROR_OUT_OF_MEMORY);
    cube.Depth = 64;
    EQUAL(CU(cuArray3DCreate)(&a, &cube), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(twins_of_pools_are_limited, "memory=1024", NULL) {
    CUdeviceptr p, q;
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    begin();
    uint64_t before = sim_used();
    EQUAL(CU(cuMemPoolCreate)(&pool, &props), 0);
    EQUAL(CU(cuMemAllocFromPoolAsync_ptsz)(&q, 1025 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAllocFromPoolAsync_ptsz)(&p, 600 * MIB, pool, NULL), 0);
    CHECK(charged() >= 600 * MIB && charged() == sim_used() - before);
    EQUAL(CU(cuMemFreeAsync_ptsz)(p, NULL), 0);
    EQUAL(CU(cuStreamSynchronize_ptsz)(NULL), 0); /* the pool has given back, and is known to have */
    EQUAL(charged(), 0);
}

TEST(the_twin_frees_what_outlived_its_pool, "memory=1024", NULL) {
    CUdeviceptr p;
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    begin();
    EQUAL(CU(cuMemPoolCreate)(&pool, &props), 0);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, 600 * MIB, pool, NULL), 0);
    EQUAL(CU(cuMemPoolDestroy)(pool), 0);
    EQUAL(charged(), 600 * MIB);
    EQUAL(CU(cuMemFreeAsync_ptsz)(p, NULL), 0);
    EQUAL(charged(), 0);
}

TEST(a_pool_that_gave_back_with_its_context_is_known_to_have, "memory=1024", NULL) {
    CUdeviceptr p;
    begin();
    EQUAL(CU(cuMemAllocAsync)(&p, 600 * MIB, NULL), 0);
    EQUAL(CU(cuMemFreeAsync)(p, NULL), 0);
    EQUAL(CU(cuCtxSynchronize)(), 0);
    EQUAL(charged(), 0);
}

/* A pool of another card than the current one is charged there. */
TEST(a_pool_belongs_to_its_card, "memory=1024", "cards=2") {
    char a[64], b[64], command[1024];
    CUdeviceptr p;
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = 1;
    uuid_of(0, a);
    uuid_of(1, b);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s/tessera-limits %s/limits card=%s memory=1000 card=%s memory=300",
             getenv("TEST_BUILD"), dir(), a, b);
    EQUAL(system(command), 0);
    begin();
    EQUAL(CU(cuMemPoolCreate)(&pool, &props), 0);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, 400 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, 200 * MIB, pool, NULL), 0);
    EQUAL(usage()->card[0].charged_bytes + usage()->card[1].charged_bytes, usage()->card[1].charged_bytes);
    CHECK(usage()->card[1].charged_bytes >= 200 * MIB);
}

TEST(a_pool_that_gave_back_at_an_event_is_known_to_have, "memory=1024", NULL) {
    CUdeviceptr p;
    CUevent event;
    begin();
    EQUAL(CU(cuEventCreate)(&event, 0), 0);
    EQUAL(CU(cuMemAllocAsync)(&p, 600 * MIB, NULL), 0);
    EQUAL(CU(cuMemFreeAsync)(p, NULL), 0);
    EQUAL(CU(cuEventRecord)(event, NULL), 0);
    uint64_t held = charged();
    EQUAL(CU(cuEventSynchronize)(event), 0);
    CHECK(held >= 600 * MIB && charged() == 0);
}

TEST(views_of_the_first_version_show_the_tile, "memory=1024", NULL) {
    unsigned unused = 0, total = 0;
    begin();
    EQUAL(allocate(24, NULL), 0);
    EQUAL(CU(cuMemGetInfo)(&unused, &total), 0);
    CHECK(total == 1024 * MIB && unused == 1000 * MIB);
    EQUAL(CU(cuDeviceTotalMem)(&total, 0), 0);
    EQUAL(total, 1024 * MIB);
}
