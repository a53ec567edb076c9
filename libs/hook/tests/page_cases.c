/* Small allocations share pages of 2 MiB, which are charged as long as the driver holds them. */
#include "harness.h"

static CUresult take(size_t bytes, CUdeviceptr *p) { return CU(cuMemAlloc_v2)(p, bytes); }
static void give(CUdeviceptr p) { EQUAL(CU(cuMemFree_v2)(p), 0); }

/* Two of these lie in a page, and a third does not fit beside them. */
TEST(small_allocations_are_charged_the_pages_that_they_lie_in, "memory=64", NULL) {
    CUdeviceptr p[200];
    int n = 0;
    begin();
    uint64_t others = sim_used();
    while (n < 200 && take(600000, &p[n]) == CUDA_SUCCESS) {
        n++;
        EQUAL(charged(), sim_used() - others);
    }
    EQUAL(n, 64);
    EQUAL(charged(), 64 * MIB);
    while (n > 0) {
        give(p[--n]);
        EQUAL(charged(), sim_used() - others);
    }
    EQUAL(charged(), 0);
}

TEST(a_page_is_charged_until_the_last_allocation_in_it_is_freed, "memory=64", NULL) {
    static CUdeviceptr p[8192];
    begin();
    uint64_t others = sim_used();
    for (int i = 0; i < 8192; i++)
        EQUAL(take(1000, &p[i]), 0);
    EQUAL(charged(), 8 * MIB);
    for (int i = 0; i < 8192; i++)
        if (i % 2048)
            give(p[i]);
    EQUAL(charged(), 8 * MIB);
    EQUAL(charged(), sim_used() - others);
    for (int i = 0; i < 8192; i += 2048)
        give(p[i]);
    EQUAL(charged(), 0);
}

TEST(a_full_share_still_gives_what_lies_in_its_pages, "memory=2", NULL) {
    CUdeviceptr p[3];
    begin();
    EQUAL(take(1000, &p[0]), 0);
    EQUAL(take(1000, &p[1]), 0);
    EQUAL(charged(), 2 * MIB);
    EQUAL(allocate(1, &p[2]), CUDA_ERROR_OUT_OF_MEMORY);
    set_limits("memory=1"); /* less than is charged: nothing more, wherever it would lie */
    usleep(150000);
    EQUAL(take(1000, &p[2]), CUDA_ERROR_OUT_OF_MEMORY);
}

/* There is room for a megabyte, half of it in each of two pages: the driver takes a third, and it is undone. */
TEST(a_page_beyond_the_limit_is_given_back, "memory=4", NULL) {
    CUdeviceptr p[8], more = 1;
    begin();
    uint64_t others = sim_used();
    for (int i = 0; i < 8; i++)
        EQUAL(take(500000, &p[i]), 0);
    EQUAL(charged(), 4 * MIB);
    give(p[0]);
    give(p[4]);
    EQUAL(take(1000000, &more), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(more, 0);
    EQUAL(charged(), 4 * MIB);
    EQUAL(sim_used() - others, 4 * MIB);
    EQUAL(take(500000, &p[0]), 0);
    EQUAL(take(500000, &p[4]), 0);
    CHECK(usage()->card[0].peak_bytes == 4 * MIB);
}

TEST(pages_go_with_their_context, "memory=64", NULL) {
    CUcontext context;
    CUdeviceptr p;
    begin();
    EQUAL(CU(cuCtxCreate_v2)(&context, 0, 0), 0);
    for (int i = 0; i < 100; i++)
        EQUAL(take(100000, &p), 0);
    CHECK(charged() > 0);
    EQUAL(CU(cuCtxDestroy_v2)(context), 0);
    EQUAL(charged(), 0);
}

TEST(each_process_has_pages_of_its_own, "memory=64", NULL) {
    CUdeviceptr p;
    int go[2];
    char c;
    EQUAL(pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        EQUAL(read(go[0], &c, 1), 1);
        begin();
        EQUAL(take(1000, &p), 0);
        EQUAL(charged(), 4 * MIB);
        _exit(0);
    }
    begin();
    EQUAL(take(1000, &p), 0);
    EQUAL(write(go[1], "x", 1), 1);
    EQUAL(wait_for(pid), 0);
}

TEST(pages_beyond_the_card_are_managed, "memory=1024 resident=2 card_flags=1", NULL) {
    CUdeviceptr p[3];
    begin();
    for (int i = 0; i < 3; i++)
        EQUAL(take(1000000, &p[i]), 0);
    EQUAL(usage()->slot[0].bytes[TESSERA_DEVICE], 2 * MIB);
    EQUAL(usage()->slot[0].bytes[TESSERA_MANAGED], 1000448);
    for (int i = 0; i < 3; i++)
        give(p[i]);
    EQUAL(charged(), 0);
}

TEST(pages_of_the_first_version_and_of_pitch_are_charged_too, "memory=2", NULL) {
    CUdeviceptr_v1 p, more;
    unsigned pitch;
    begin();
    EQUAL(CU(cuMemAlloc)(&p, 600000), 0);
    EQUAL(charged(), 2 * MIB);
    EQUAL(CU(cuMemAllocPitch)(&more, &pitch, 1000, 500, 4), 0);
    EQUAL(charged(), 2 * MIB);
    EQUAL(CU(cuMemAlloc)(&more, 1000000), CUDA_ERROR_OUT_OF_MEMORY); /* in a second page */
    EQUAL(charged(), 2 * MIB);
}
