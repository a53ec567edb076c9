/* What the usage file shows of memory and launches over time. */
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "harness.h"

#define US 1000ull
#define MS 1000000ull
#define AT(field) (offsetof(struct tessera_usage, card) + offsetof(struct tessera_card_usage, field))

static uint64_t this_hour(void) {
    return (uint64_t)time(NULL) / 3600;
}

/* As if the hour had begun since: the library reads it from the file. */
static void an_hour_passes(void) {
    char path[512];
    uint64_t earlier = this_hour() - 1;
    snprintf(path, sizeof path, "%s/usage", dir());
    int fd = open(path, O_RDWR);
    EQUAL(pwrite(fd, &earlier, sizeof earlier, AT(peak_hour)), sizeof earlier);
    close(fd);
}

static void give(CUdeviceptr p) {
    EQUAL(CU(cuMemFree_v2)(p), 0);
}

static void launch(CUfunction f, long times) {
    PFN_cuLaunchKernel call = CU(cuLaunchKernel);
    for (long i = 0; i < times; i++)
        EQUAL(call(f, 64, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL), 0);
    EQUAL(CU(cuCtxSynchronize)(), 0);
}

static uint32_t of_time(unsigned i) {
    return usage()->kernel_times[0][i];
}

TEST(allocated_bytes_add_up_whatever_is_freed, "memory=1024", NULL) {
    CUdeviceptr p;
    begin();
    for (int i = 0; i < 10; i++) {
        EQUAL(allocate(100, &p), 0);
        give(p);
    }
    EQUAL(allocate(2000, &p), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(usage()->card[0].allocated_bytes, 1000 * MIB);
    EQUAL(charged(), 0);
}

TEST(the_peak_of_an_hour_begins_with_what_is_held, "memory=1024", NULL) {
    CUdeviceptr large, small;
    begin();
    EQUAL(allocate(600, &large), 0);
    EQUAL(allocate(50, &small), 0);
    give(large);
    EQUAL(usage()->card[0].hour_peak_bytes, 650 * MIB);
    an_hour_passes();
    EQUAL(allocate(100, &large), 0);
    give(large);
    EQUAL(usage()->card[0].hour_peak_bytes, 150 * MIB);
    CHECK(usage()->card[0].peak_hour >= this_hour() - 1);
    EQUAL(usage()->card[0].peak_bytes, 650 * MIB);
}

TEST(what_is_freed_first_in_an_hour_was_held_in_it, "memory=1024", NULL) {
    CUdeviceptr large;
    begin();
    EQUAL(allocate(600, &large), 0);
    an_hour_passes();
    give(large);
    EQUAL(allocate(10, &large), 0);
    EQUAL(usage()->card[0].hour_peak_bytes, 600 * MIB);
}

TEST(launches_are_counted_by_the_time_that_they_take, "memory=1024", "clock=virtual") {
    begin();
    launch(kernel(100 * MS), 3);
    launch(kernel(700 * US), 40);
    launch(kernel(5 * US), 1000);
    launch(kernel(700 * US), 1); /* the next that is measured settles what has run */
    launch(kernel(100 * MS), 1);
    EQUAL(of_time(15), 3);
    EQUAL(of_time(8), 41);
    CHECK(of_time(1) > 600 && of_time(1) <= 1000); /* the last ones were not measured yet */
}

static void some_launches(void *with) {
    (void)with;
    begin();
    launch(kernel(700 * US), 10);
    launch(kernel(100 * MS), 1);
}

TEST(launches_of_processes_that_ended_stay_counted, "memory=1024", NULL) {
    for (int i = 0; i < 3; i++)
        EQUAL(wait_for(child(some_launches, NULL)), 0);
    EQUAL(of_time(8), 30);
}
