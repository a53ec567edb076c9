/* Limits and usage files: who may say what, and what survives which damage. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static const char *at(const char *file) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir(), file);
    return path;
}

static void poll_the_card(void *until_ns) {
    size_t unused, total;
    begin();
    for (uint64_t end = *(uint64_t *)until_ns; harness_now() < end; usleep(2000))
        EQUAL(CU(cuMemGetInfo_v2)(&unused, &total), 0);
}

/* Of many processes that poll, one looks for dead ones: about ten times a second in all. */
TEST(one_process_for_all_looks_for_the_dead, "memory=1024", NULL) {
    uint64_t end = harness_now() + 2000000000, looks = 0, last = 0;
    pid_t pid[5];
    for (int i = 0; i < 5; i++)
        pid[i] = child(poll_the_card, &end);
    begin();
    while (harness_now() < end) {
        uint64_t now = usage()->reaped_ns;
        looks += now != last;
        last = now;
        usleep(5000);
    }
    for (int i = 0; i < 5; i++)
        EQUAL(wait_for(pid[i]), 0);
    fprintf(stderr, "    %llu looks in two seconds\n", (unsigned long long)looks);
    CHECK(looks >= 2 && looks <= 22);
}

TEST(hc_environment_overrides_the_limits, "memory=64", NULL) {
    setenv("CUDA_DEVICE_MEMORY_LIMIT", "8g", 1);
    setenv("CUDA_DISABLE_CONTROL", "true", 1);
    begin();
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

static size_t total_with(const char *name, const char *value) {
    size_t free_bytes, total;
    if (name)
        setenv(name, value, 1);
    begin();
    EQUAL(CU(cuMemGetInfo_v2)(&free_bytes, &total), 0);
    return total;
}

TEST(hami_environment_counts_without_a_file, NULL, NULL) { EQUAL(total_with("CUDA_DEVICE_MEMORY_LIMIT", "3000m"), 3000 * MIB); }
TEST(hami_index_wins_over_global, NULL, NULL) {
    setenv("CUDA_DEVICE_MEMORY_LIMIT", "1g", 1);
    EQUAL(total_with("CUDA_DEVICE_MEMORY_LIMIT_0", "2g"), 2048 * MIB);
}
TEST(koordinator_plain_bytes, NULL, NULL) { EQUAL(total_with("CUDA_DEVICE_MEMORY_LIMIT", "1073741824"), 1024 * MIB); }
TEST(hami_odd_tails_are_ignored, NULL, NULL) { EQUAL(total_with("CUDA_DEVICE_MEMORY_LIMIT", "1.5g"), 1024 * MIB); }
TEST(hami_garbage_means_no_limit, NULL, NULL) { EQUAL(total_with("CUDA_DEVICE_MEMORY_LIMIT", "lots"), 16384 * MIB); }

TEST(a_file_that_becomes_garbage_lifts_nothing, "memory=64", NULL) {
    begin();
    int fd = open(at("limits"), O_RDWR);
    EQUAL(pwrite(fd, "garbage garbage garbage garbage garbage garbage garbage garbage!!", 64, 0), 64);
    usleep(50000);
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(ftruncate(fd, 10), 0);
    usleep(50000);
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(unlink(at("limits")), 0);
    usleep(50000);
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(allocate(64, NULL), 0);
}

TEST(a_file_of_garbage_at_the_start_gives_nothing_until_it_is_valid, NULL, NULL) {
    int fd = open(at("limits"), O_RDWR | O_CREAT, 0644);
    EQUAL(ftruncate(fd, TESSERA_LIMITS_SIZE), 0);
    begin();
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    set_limits("memory=64");
    usleep(50000);
    EQUAL(allocate(64, NULL), 0);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

/* Where nothing is mounted, variables stand in for a file until there is one. */
TEST(a_file_that_comes_later_counts_instead_of_variables, NULL, NULL) {
    EQUAL(total_with("CUDA_DEVICE_MEMORY_LIMIT", "3000m"), 3000 * MIB);
    EQUAL(allocate(100, NULL), 0);
    set_limits("memory=164");
    usleep(50000);
    EQUAL(allocate(64, NULL), 0);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(hc_deleting_the_region_splits_the_accounts, "memory=1024", NULL) {
    begin();
    EQUAL(allocate(600, NULL), 0);
    EQUAL(unlink(at("usage")), 0);
    usleep(150000);
    EQUAL(allocate(1, NULL), 0); /* notices, and builds it again with what it holds */
    EQUAL(charged(), 602 * MIB);
    EQUAL(allocate(600, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(a_truncated_usage_file_is_made_whole, "memory=1024", NULL) {
    begin();
    EQUAL(allocate(600, NULL), 0);
    usleep(150000);
    EQUAL(truncate(at("usage"), 0), 0);
    EQUAL(truncate(at("usage"), TESSERA_USAGE_SIZE), 0); /* the accident would be a signal meanwhile */
    usleep(150000);
    EQUAL(allocate(1, NULL), 0);
    EQUAL(charged(), 602 * MIB);
}

TEST(a_usage_file_of_garbage_is_rebuilt, "memory=1024", NULL) {
    int fd = open(at("usage"), O_RDWR | O_CREAT, 0666);
    for (int i = 0; i < 70; i++) {
        char page[4096];
        memset(page, 0x5a + i, sizeof page);
        EQUAL(write(fd, page, sizeof page), sizeof page);
    }
    close(fd);
    begin();
    EQUAL(allocate(1000, NULL), 0);
    EQUAL(charged(), 1000 * MIB);
}

/* Whoever notices first builds it: the others are in it no more, and have to find that out. */
static void hold_and_poll(void *until) {
    begin();
    EQUAL(allocate(100, NULL), 0);
    poll_the_card(until);
}
TEST(who_did_not_rebuild_the_file_brings_its_charge_along, "memory=1024", NULL) {
    static char nothing[TESSERA_USAGE_SIZE];
    uint64_t end = harness_now() + 2000000000;
    pid_t pid[5];
    for (int i = 0; i < 5; i++)
        pid[i] = child(hold_and_poll, &end);
    begin();
    while (charged() < 500 * MIB)
        usleep(1000);
    int fd = open(at("usage"), O_RDWR);
    EQUAL(pwrite(fd, nothing, sizeof nothing, 0), sizeof nothing);
    close(fd);
    while (harness_now() < end - 200000000) {
        size_t a, b;
        EQUAL(CU(cuMemGetInfo_v2)(&a, &b), 0);
        usleep(5000);
    }
    EQUAL(charged(), 500 * MIB);
    for (int i = 0; i < 5; i++)
        EQUAL(wait_for(pid[i]), 0);
}

TEST(hc_no_usage_file_kills_the_application, "memory=64", NULL) {
    setenv("TESSERA_USAGE", "/proc/no/such/place", 1);
    begin();
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(allocate(64, NULL), 0);
}

/* Where the agent prefers nothing to a count that others do not share. */
TEST(closed_means_no_memory_without_a_usage_file, "memory=64", NULL) {
    char command[1024], uuid[64];
    uuid_of(0, uuid);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s/tessera-limits %s flags=4 card=%s memory=64",
             getenv("TEST_BUILD"), at("limits"), uuid);
    EQUAL(system(command), 0);
    setenv("TESSERA_USAGE", "/proc/no/such/place", 1);
    begin();
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(a_symbolic_link_is_not_followed, "memory=64", NULL) {
    char elsewhere[512];
    struct stat there;
    snprintf(elsewhere, sizeof elsewhere, "%s", at("elsewhere"));
    close(open(elsewhere, O_WRONLY | O_CREAT, 0666));
    EQUAL(symlink(elsewhere, at("usage")), 0);
    begin();
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(stat(elsewhere, &there), 0);
    EQUAL(there.st_size, 0);
}

TEST(closed_descriptors_do_not_matter, "memory=1024", NULL) {
    begin();
    EQUAL(allocate(100, NULL), 0);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    int mine[8];
    for (int i = 0; i < 8; i++)
        mine[i] = open("/dev/null", O_RDWR);
    usleep(150000);
    EQUAL(allocate(100, NULL), 0);
    EQUAL(charged(), 200 * MIB);
    for (int i = 0; i < 8; i++)
        EQUAL(close(mine[i]), 0);
}
