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

TEST(hc_deleting_the_region_splits_the_accounts, "memory=1024", NULL) {
    begin();
    EQUAL(allocate(600, NULL), 0);
    EQUAL(unlink(at("usage")), 0);
    usleep(150000);
    EQUAL(allocate(1, NULL), 0); /* notices, and builds it again with what it holds */
    EQUAL(charged(), 601 * MIB);
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
    EQUAL(charged(), 601 * MIB);
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

TEST(hc_no_usage_file_kills_the_application, "memory=64", NULL) {
    setenv("TESSERA_USAGE", "/proc/no/such/place", 1);
    begin();
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(allocate(64, NULL), 0);
}

TEST(a_symbolic_link_is_not_followed, "memory=64", NULL) {
    EQUAL(symlink("/dev/null", at("usage")), 0);
    begin();
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
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

/* SIGKILL at every point of allocating and freeing: what is charged is what the living hold. */
static void churn(void) {
    CUdeviceptr p, q;
    begin();
    for (int i = 0; i < 2; i++) {
        allocate(100, &p);
        CU(cuMemAllocManaged)(&q, 50 * MIB, CU_MEM_ATTACH_GLOBAL);
        CU(cuMemFree_v2)(p);
        CU(cuMemFree_v2)(q);
    }
}

TEST(killed_at_every_point, "memory=1024", NULL) {
    char text[16];
    int died = 0, points = 0;
    for (int n = 1; n < 100; n++) {
        snprintf(text, sizeof text, "%d", n);
        pid_t pid = fork();
        if (pid == 0) {
            setenv("TESSERA_KILL_AT", text, 1);
            setenv("TEST_CASE", "churn_until_killed", 1);
            char hook[512];
            snprintf(hook, sizeof hook, "%s/points/libtessera.so", getenv("TEST_BUILD"));
            setenv("LD_PRELOAD", hook, 1);
            execl("/proc/self/exe", "cases", "x", (char *)NULL);
        }
        if (wait_for(pid) == 0)
            break;
        died++;
        pid = fork(); /* the next one to come finds a clean account */
        if (pid == 0) {
            begin();
            EQUAL(allocate(1024, NULL), 0);
            EQUAL(charged(), 1024 * MIB);
            _exit(0);
        }
        points += wait_for(pid) == 0;
    }
    fprintf(stderr, "    %d points\n", died);
    CHECK(died > 20 && points == died);
}
TEST(churn_until_killed, "memory=1024", NULL) { churn(); }

/* Random operations of several processes against what the machine itself says they hold. */
static void wander(unsigned seed, int operations) {
    CUdeviceptr held[64];
    int n = 0;
    for (int i = 0; i < operations; i++) {
        seed = seed * 1103515245u + 12345u;
        unsigned dice = (seed >> 16) & 0xff;
        if (dice < 140 && n < 64) {
            size_t bytes = 512 + ((seed >> 8) % (16 * MIB));
            if (CU(cuMemAlloc_v2)(&held[n], bytes) == CUDA_SUCCESS)
                n++;
        } else if (n) {
            unsigned at_ = dice % (unsigned)n;
            EQUAL(CU(cuMemFree_v2)(held[at_]), 0);
            held[at_] = held[--n];
        }
    }
}

TEST(random_operations_add_up, "memory=1024", NULL) {
    pid_t pids[4];
    int stop[2];
    char c;
    EQUAL(pipe(stop), 0);
    for (unsigned i = 0; i < 4; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            close(stop[1]);
            begin();
            wander(i + 1, 50000);
            raise(SIGSTOP);
            if (read(stop[0], &c, 1) < 0)
                _exit(1);
            _exit(0);
        }
    }
    for (int i = 0; i < 4; i++) {
        int status;
        EQUAL(waitpid(pids[i], &status, WUNTRACED), pids[i]);
        CHECK(WIFSTOPPED(status));
    }
    uint64_t (*of)(int, int) = (uint64_t(*)(int, int))(uintptr_t)driver_get("cuSimProcessUsed");
    CU(cuInit)(0);
    uint64_t held = 0, contexts = 4 * 300 * MIB;
    for (int i = 0; i < 4; i++)
        held += of(0, pids[i]);
    EQUAL(charged(), held - contexts);
    for (int i = 0; i < 4; i++)
        kill(pids[i], SIGKILL);
    for (int i = 0; i < 4; i++)
        wait_for(pids[i]);
    begin();
    EQUAL(allocate(1024, NULL), 0);
}
