/* Memory: what is taken is charged, what is given back is not, and nothing passes the limit. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

TEST(allocation_stops_at_the_limit, "memory=1024", NULL) {
    CUdeviceptr a, b;
    begin();
    EQUAL(allocate(600, &a), 0);
    EQUAL(allocate(600, &b), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(charged(), 600 * MIB);
    EQUAL(CU(cuMemFree_v2)(a), 0);
    EQUAL(charged(), 0);
    EQUAL(allocate(1024, &b), 0);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(usage()->card[0].denials, 2);
}

TEST(what_is_seen_is_the_tile, "memory=1024", NULL) {
    size_t free_bytes, total;
    begin();
    EQUAL(CU(cuMemGetInfo_v2)(&free_bytes, &total), 0);
    EQUAL(total, 1024 * MIB);
    EQUAL(free_bytes, 1024 * MIB);
    EQUAL(allocate(24, NULL), 0);
    EQUAL(CU(cuMemGetInfo_v2)(&free_bytes, &total), 0);
    EQUAL(free_bytes, 1000 * MIB);
    EQUAL(CU(cuDeviceTotalMem_v2)(&total, 0), 0);
    EQUAL(total, 1024 * MIB);
}

TEST(free_is_never_more_than_the_card_has, "memory=1000000", NULL) {
    size_t free_bytes, total;
    begin();
    EQUAL(CU(cuMemGetInfo_v2)(&free_bytes, &total), 0);
    CHECK(total <= 16384 * MIB && free_bytes <= total && free_bytes > 0);
}

TEST(hc_toctou_two_processes_never_both_pass, "memory=1024", NULL) {
    pid_t pids[8];
    for (int i = 0; i < 8; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            begin();
            for (int n = 0; n < 2000; n++) {
                CUdeviceptr p[4];
                int held = 0;
                while (held < 4 && allocate(100, &p[held]) == 0)
                    held++;
                if (charged() > 1024 * MIB)
                    _exit(3);
                while (held)
                    CU(cuMemFree_v2)(p[--held]);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < 8; i++)
        EQUAL(wait_for(pids[i]), 0);
    begin();
    EQUAL(allocate(1024, NULL), 0);
}

TEST(killed_process_gives_everything_back_at_once, "memory=1024", NULL) {
    int ready[2];
    char c;
    EQUAL(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        begin();
        EQUAL(allocate(900, NULL), 0);
        EQUAL(write(ready[1], "x", 1), 1);
        pause();
    }
    EQUAL(read(ready[0], &c, 1), 1);
    EQUAL(charged(), 900 * MIB);
    begin();
    EQUAL(allocate(900, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    kill(pid, SIGKILL);
    EQUAL(wait_for(pid), 137);
    EQUAL(allocate(900, NULL), 0);
    EQUAL(charged(), 900 * MIB);
}

TEST(pitch_is_charged_as_the_driver_laid_it_out, "memory=1024", NULL) {
    CUdeviceptr p;
    size_t pitch;
    begin();
    uint64_t before = sim_used();
    EQUAL(CU(cuMemAllocPitch_v2)(&p, &pitch, 2100, 1000, 4), 0);
    CHECK(charged() >= pitch * 1000 && charged() < pitch * 1000 + 2 * MIB);
    EQUAL(charged(), sim_used() - before);
    EQUAL(CU(cuMemFree_v2)(p), 0);
    EQUAL(charged(), 0);
    EQUAL(CU(cuMemAllocPitch_v2)(&p, &pitch, 1 << 20, 2048, 4), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(managed_memory_counts, "memory=64", NULL) {
    CUdeviceptr p;
    begin();
    EQUAL(CU(cuMemAllocManaged)(&p, 65 * MIB, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAllocManaged)(&p, 60 * MIB, CU_MEM_ATTACH_GLOBAL), 0);
    EQUAL(usage()->slot[0].bytes[TESSERA_MANAGED], 60 * MIB);
    EQUAL(CU(cuMemFree_v2)(p), 0);
    EQUAL(charged(), 0);
}

TEST(hc_arrays_are_uncounted_vc_overcharges_eightfold, "memory=64", NULL) {
    CUarray a;
    CUmipmappedArray m;
    CUDA_ARRAY_DESCRIPTOR plain = {.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR cube = {.Width = 256, .Height = 256, .Depth = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR flat = {.Width = 1024, .Height = 1024, .Depth = 0, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    begin();
    uint64_t before = sim_used();
    EQUAL(CU(cuArrayCreate_v2)(&a, &plain), 0);
    CHECK(charged() >= 16 * MIB && charged() < 17 * MIB);
    EQUAL(charged(), sim_used() - before);
    EQUAL(CU(cuArrayDestroy)(a), 0);
    EQUAL(charged(), 0);
    EQUAL(CU(cuArray3DCreate_v2)(&a, &cube), 0);
    CHECK(charged() >= 64 * MIB);
    EQUAL(CU(cuArrayDestroy)(a), 0);
    EQUAL(CU(cuMipmappedArrayCreate)(&m, &flat, 11), 0);
    CHECK(charged() >= MIB + MIB / 4 && charged() <= 2 * MIB);
    EQUAL(charged(), sim_used() - before);
    EQUAL(CU(cuMipmappedArrayDestroy)(m), 0);
    EQUAL(charged(), 0);
}

static CUmemAllocationProp on_device(void) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

TEST(hc_vmm_mapped_memory_after_release_is_free, "memory=1024", NULL) {
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr at;
    CUmemAllocationProp prop = on_device();
    begin();
    EQUAL(CU(cuMemAddressReserve)(&at, 900 * MIB, 0, 0, 0), 0);
    EQUAL(CU(cuMemCreate)(&handle, 900 * MIB, &prop, 0), 0);
    EQUAL(CU(cuMemMap)(at, 900 * MIB, 0, handle, 0), 0);
    EQUAL(CU(cuMemRelease)(handle), 0);
    EQUAL(charged(), 900 * MIB);
    EQUAL(CU(cuMemCreate)(&again, 900 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)at), 0);
    EQUAL(CU(cuMemUnmap)(at, 900 * MIB), 0);
    EQUAL(charged(), 900 * MIB);
    EQUAL(CU(cuMemRelease)(again), 0);
    EQUAL(charged(), 0);
}

TEST(one_unmap_of_several_mappings, "memory=1024", NULL) {
    CUmemGenericAllocationHandle handle[8];
    CUdeviceptr at;
    CUmemAllocationProp prop = on_device();
    begin();
    EQUAL(CU(cuMemAddressReserve)(&at, 160 * MIB, 0, 0, 0), 0);
    for (unsigned i = 0; i < 8; i++) {
        EQUAL(CU(cuMemCreate)(&handle[i], 20 * MIB, &prop, 0), 0);
        EQUAL(CU(cuMemMap)(at + i * 20 * MIB, 20 * MIB, 0, handle[i], 0), 0);
        EQUAL(CU(cuMemRelease)(handle[i]), 0);
    }
    EQUAL(charged(), 160 * MIB);
    EQUAL(CU(cuMemUnmap)(at, 160 * MIB), 0);
    EQUAL(charged(), 0);
}

TEST(hc_async_over_the_limit_is_out_of_memory, "memory=256", NULL) {
    CUdeviceptr p;
    begin();
    EQUAL(CU(cuMemAllocAsync)(&p, 300 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAllocAsync_ptsz)(&p, 300 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(charged(), 0);
}

TEST(pools_are_charged_what_they_hold, "memory=1024", NULL) {
    CUdeviceptr p;
    CUmemoryPool pool;
    cuuint64_t keep = UINT64_MAX;
    begin();
    uint64_t before = sim_used();
    EQUAL(CU(cuDeviceGetDefaultMemPool)(&pool, 0), 0);
    EQUAL(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), 0);
    EQUAL(CU(cuMemAllocAsync)(&p, 300 * MIB, NULL), 0);
    EQUAL(charged(), sim_used() - before);
    EQUAL(CU(cuMemFreeAsync)(p, NULL), 0);
    EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    EQUAL(charged(), sim_used() - before);
    CHECK(charged() >= 300 * MIB);
    EQUAL(CU(cuMemPoolTrimTo)(pool, 0), 0);
    EQUAL(charged(), sim_used() - before);
    EQUAL(charged(), 0);
}

TEST(an_idle_pool_gives_back_before_anything_is_refused, "memory=1024", NULL) {
    CUdeviceptr p;
    CUmemoryPool pool;
    cuuint64_t keep = UINT64_MAX;
    begin();
    EQUAL(CU(cuDeviceGetDefaultMemPool)(&pool, 0), 0);
    EQUAL(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), 0);
    EQUAL(CU(cuMemAllocAsync)(&p, 600 * MIB, NULL), 0);
    EQUAL(CU(cuMemFreeAsync)(p, NULL), 0);
    EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    EQUAL(allocate(900, NULL), 0);
    EQUAL(charged(), 900 * MIB);
}

TEST(hc_memory_from_a_pool_is_uncounted_and_leaks, "memory=1024", NULL) {
    CUdeviceptr p, q;
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    begin();
    uint64_t before = sim_used();
    EQUAL(CU(cuMemPoolCreate)(&pool, &props), 0);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, 500 * MIB, pool, NULL), 0);
    CHECK(charged() >= 500 * MIB);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&q, 600 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemFreeAsync)(p, NULL), 0);
    EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    EQUAL(CU(cuMemPoolTrimTo)(pool, 0), 0);
    EQUAL(charged(), sim_used() - before);
    EQUAL(CU(cuMemAllocFromPoolAsync)(&p, 100 * MIB, pool, NULL), 0);
    EQUAL(CU(cuMemFree_v2)(p), 0);
    EQUAL(CU(cuMemPoolDestroy)(pool), 0);
    EQUAL(charged(), sim_used() - before);
}

TEST(host_memory_is_not_charged, "memory=64", NULL) {
    void *p;
    begin();
    EQUAL(CU(cuMemHostAlloc)(&p, 100 * MIB, 0), 0);
    EQUAL(charged(), 0);
}

TEST(a_destroyed_context_takes_its_memory_along, "memory=1024", NULL) {
    CUcontext context;
    begin();
    EQUAL(CU(cuCtxCreate_v2)(&context, 0, 0), 0);
    EQUAL(allocate(700, NULL), 0);
    EQUAL(charged(), 700 * MIB);
    EQUAL(CU(cuCtxDestroy_v2)(context), 0);
    EQUAL(charged(), 0);
}

TEST(a_reset_device_takes_its_memory_along, "memory=1024", NULL) {
    begin();
    EQUAL(allocate(700, NULL), 0);
    EQUAL(CU(cuDevicePrimaryCtxReset_v2)(0), 0);
    EQUAL(charged(), 0);
}

TEST(oversubscription_goes_to_managed_memory, "memory=1024 resident=256 card_flags=1", NULL) {
    CUdeviceptr p;
    int managed = 0;
    begin();
    EQUAL(allocate(200, NULL), 0);
    EQUAL(allocate(200, &p), 0);
    EQUAL(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p), 0);
    EQUAL(managed, 1);
    EQUAL(usage()->slot[0].bytes[TESSERA_DEVICE], 200 * MIB);
    EQUAL(usage()->slot[0].bytes[TESSERA_MANAGED], 200 * MIB);
    EQUAL(allocate(700, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemFree_v2)(p), 0);
    EQUAL(charged(), 200 * MIB);
}

TEST(managed_memory_leaves_the_card_to_others, "memory=1024 resident=256 card_flags=1", NULL) {
    CUdeviceptr p;
    int managed = 1;
    begin();
    EQUAL(allocate(300, NULL), 0); /* does not lie on the card, which is still empty */
    EQUAL(allocate(200, &p), 0);
    EQUAL(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p), 0);
    EQUAL(managed, 0);
    EQUAL(usage()->slot[0].bytes[TESSERA_DEVICE], 200 * MIB);
    EQUAL(usage()->slot[0].bytes[TESSERA_MANAGED], 300 * MIB);
}

TEST(what_cannot_be_managed_is_refused_beyond_the_card, "memory=1024 resident=256 card_flags=1", NULL) {
    CUdeviceptr p;
    size_t pitch;
    begin();
    EQUAL(allocate(200, NULL), 0);
    EQUAL(CU(cuMemAllocPitch_v2)(&p, &pitch, MIB, 100, 4), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemAllocPitch_v2)(&p, &pitch, MIB, 50, 4), 0);
    EQUAL(CU(cuMemAllocAsync)(&p, 100 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(usage()->slot[0].bytes[TESSERA_MANAGED], 0);
    EQUAL(charged(), 250 * MIB);
}

TEST(hundred_thousand_live_allocations, "memory=8192", NULL) {
    static CUdeviceptr p[100000];
    PFN_cuMemAlloc_v2 a = CU(cuMemAlloc_v2);
    PFN_cuMemFree_v2 f = CU(cuMemFree_v2);
    begin();
    int n = 0;
    while (n < 100000 && a(&p[n], 4096) == CUDA_SUCCESS)
        n++;
    CHECK(n >= 1000);
    EQUAL(charged(), ((uint64_t)n * 4096 + 2 * MIB - 1) / (2 * MIB) * 2 * MIB);
    for (int i = 0; i < n; i++)
        EQUAL(f(p[(i * 7919ll) % n]), 0);
    EQUAL(charged(), 0);
}
