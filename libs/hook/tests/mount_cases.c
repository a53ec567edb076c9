/* The library and its limits as the agent mounts them, in mount namespaces: what another container does
 * to a shared volume must not lift a limit. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define PLACE "/usr/local/tessera"
#define SKIPPED 77

static void shell(const char *command) {
    char all[2048];
    snprintf(all, sizeof all, "unset LD_PRELOAD; set -e; HERE='%s' TOOLS='%s'; %s", dir(), getenv("TEST_BUILD"), command);
    int status = system(all);
    if (status != 0)
        fprintf(stderr, "    %s\n", command);
    EQUAL(status, 0);
}

/* A namespace in which /usr/local is a volume, $HERE/volume, as another container has it too. */
static void with_a_volume(void) {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        _exit(SKIPPED); /* no privilege, and no namespace in which to have one */
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        _exit(SKIPPED);
    shell("mkdir $HERE/volume $HERE/agents; mount -t tmpfs agents $HERE/agents; mount -t tmpfs volume $HERE/volume;"
          "mkdir -p $HERE/volume/tessera/lib; touch $HERE/volume/tessera/limits $HERE/volume/tessera/lib/libtessera.so;"
          "cp $HERE/limits $HERE/agents/limits; cp $TOOLS/libtessera.so $HERE/agents/libtessera.so");
}

static void bind_read_only(const char *file, const char *at) {
    char from[512];
    snprintf(from, sizeof from, "%s/%s", dir(), file);
    EQUAL(mount(from, at, NULL, MS_BIND, NULL), 0);
    EQUAL(mount(NULL, at, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
}

/* What runs in the container is this program again: its case looks at STAGE. */
static void go_on(const char *stage) {
    const char *elsewhere = getenv("PRELOAD_AT");
    setenv("STAGE", stage, 1);
    setenv("LD_PRELOAD", elsewhere ? elsewhere : PLACE "/lib/libtessera.so", 1);
    execl("/proc/self/exe", "cases", getenv("TEST_CASE"), (char *)NULL);
    _exit(127);
}

static int stage_is(const char *name) {
    const char *stage = getenv("STAGE");
    return stage ? !strcmp(stage, name) : !*name;
}

/* A container with the volume at /usr/local and the agent's mounts below it. */
static pid_t container(const char *stage, unsigned long volume_flags) {
    char volume[512];
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    EQUAL(unshare(CLONE_NEWNS), 0);
    snprintf(volume, sizeof volume, "%s/volume", dir());
    EQUAL(mount(volume, "/usr/local", NULL, MS_BIND, NULL), 0);
    if (volume_flags)
        EQUAL(mount(NULL, "/usr/local", NULL, MS_BIND | MS_REMOUNT | volume_flags, NULL), 0);
    bind_read_only("agents/libtessera.so", PLACE "/lib/libtessera.so");
    bind_read_only("agents/limits", PLACE "/limits");
    go_on(stage);
    return 0;
}

static const char *here(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir(), name);
    return path;
}

static int there(void *path) {
    return access(path, F_OK) == 0;
}

static void wait_for_file(const char *name) {
    CHECK(until(there, (void *)(uintptr_t)here(name)));
}

static void note(const char *name) {
    close(open(here(name), O_WRONLY | O_CREAT, 0666));
}

static void offers_more(void) {
    char command[1024], uuid[64];
    uuid_of(0, uuid);
    snprintf(command, sizeof command, "$TOOLS/tessera-limits $HERE/volume/tessera/limits card=%s memory=8192", uuid);
    shell(command);
}

static int refused(void *unused) {
    (void)unused;
    return allocate(1, NULL) == CUDA_ERROR_OUT_OF_MEMORY;
}

TEST(limits_that_are_mounted_count, "memory=64", NULL) {
    if (stage_is("")) {
        with_a_volume();
        EQUAL(wait_for(container("inside", 0)), 0);
        return;
    }
    begin();
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(allocate(64, NULL), 0);
}

/* A container that starts without its limits: they are mounted once its process has found nothing. */
static void mount_limits_later(void) {
    char volume[512];
    EQUAL(unshare(CLONE_NEWNS), 0);
    snprintf(volume, sizeof volume, "%s/volume", dir());
    EQUAL(mount(volume, "/usr/local", NULL, MS_BIND, NULL), 0);
    bind_read_only("agents/libtessera.so", PLACE "/lib/libtessera.so");
    pid_t pid = fork();
    if (pid == 0)
        go_on("inside");
    wait_for_file("closed");
    bind_read_only("agents/limits", PLACE "/limits");
    EQUAL(wait_for(pid), 0);
}

TEST(a_process_that_starts_before_its_limits_has_nothing_until_they_come, "memory=64", NULL) {
    size_t unused, total;
    if (stage_is("")) {
        with_a_volume();
        pid_t pid = fork();
        if (pid == 0) {
            mount_limits_later();
            _exit(0);
        }
        EQUAL(wait_for(pid), 0);
        return;
    }
    setenv("CUDA_DEVICE_MEMORY_LIMIT", "8g", 1);
    begin();
    CUfunction f = kernel(1000);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemGetInfo_v2)(&unused, &total), 0);
    EQUAL(total, 0);
    note("closed");
    EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0); /* held until they are there */
    EQUAL(CU(cuMemGetInfo_v2)(&unused, &total), 0);
    EQUAL(total, 64 * MIB);
    EQUAL(allocate(64, NULL), 0);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

/* The other container removes the mount point and puts a file of its own there. */
static void lose_the_mount(unsigned long volume_flags) {
    with_a_volume();
    pid_t pid = container("inside", volume_flags);
    wait_for_file("runs");
    EQUAL(unlink(here("volume/tessera/limits")), 0);
    note("removed");
    wait_for_file("closed");
    offers_more();
    note("offered");
    EQUAL(wait_for(pid), 0);
}

static void is_closed_for_good(void) {
    size_t free_bytes, total;
    begin();
    EQUAL(allocate(1, NULL), 0);
    note("runs");
    wait_for_file("removed");
    CHECK(until(refused, NULL));
    note("closed");
    wait_for_file("offered");
    setenv("CUDA_DEVICE_MEMORY_LIMIT", "8g", 1);
    for (int looks = 0; looks < 3; looks++) {
        usleep(25000);
        EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    }
    EQUAL(CU(cuMemGetInfo_v2)(&free_bytes, &total), 0);
    EQUAL(total, 0);
    pid_t fresh = fork();
    if (fresh == 0)
        go_on("afterwards");
    EQUAL(wait_for(fresh), 0);
}

static void starts_closed(void) {
    unsetenv("STAGE");
    begin();
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(a_mount_point_that_another_container_removes_closes_it, "memory=64", NULL) {
    if (stage_is(""))
        lose_the_mount(0);
    else if (stage_is("inside"))
        is_closed_for_good();
    else
        starts_closed();
}

TEST(nor_is_a_file_of_a_volume_that_is_mounted_read_only_taken, "memory=64", NULL) {
    if (stage_is(""))
        lose_the_mount(MS_RDONLY);
    else if (stage_is("inside"))
        is_closed_for_good();
    else
        starts_closed();
}

TEST(a_folder_that_is_a_symbolic_link_is_not_followed, "memory=64", NULL) {
    if (stage_is("")) {
        with_a_volume();
        shell("mkdir $HERE/volume/other; mv $HERE/volume/tessera/* $HERE/volume/other; rmdir $HERE/volume/tessera;"
              "ln -s other $HERE/volume/tessera");
        EQUAL(wait_for(container("inside", 0)), 0);
        return;
    }
    starts_closed();
}

/* A container whose limits were never mounted, and that has a file and a variable of its own. */
static void without_limits(const char *library_at, const char *preload_at) {
    if (!stage_is("")) {
        starts_closed();
        return;
    }
    with_a_volume();
    shell("mkdir $HERE/volume/lib; touch $HERE/volume/lib/libvgpu.so");
    pid_t pid = fork();
    if (pid == 0) {
        char volume[512];
        EQUAL(unshare(CLONE_NEWNS), 0);
        snprintf(volume, sizeof volume, "%s/volume", dir());
        EQUAL(mount(volume, "/usr/local", NULL, MS_BIND, NULL), 0);
        bind_read_only("agents/libtessera.so", library_at);
        offers_more();
        setenv("CUDA_DEVICE_MEMORY_LIMIT", "8g", 1);
        setenv("PRELOAD_AT", preload_at, 1);
        go_on("inside");
    }
    EQUAL(wait_for(pid), 0);
}

TEST(without_a_mounted_file_no_variable_is_a_limit, "memory=64", NULL) {
    without_limits(PLACE "/lib/libtessera.so", PLACE "/lib/libtessera.so");
}

TEST(nor_by_another_name_of_the_mounted_library, "memory=64", NULL) {
    without_limits(PLACE "/lib/libtessera.so", "/proc/self/root" PLACE "/lib/libtessera.so");
}

TEST(nor_where_the_library_is_mounted_for_another_system, "memory=64", NULL) {
    without_limits("/usr/local/lib/libvgpu.so", "/usr/local/lib/libvgpu.so");
}

/* The agent writes into its file in place: torn for a moment, then valid again. */
TEST(a_mounted_file_that_is_torn_keeps_the_last_limits, "memory=64", NULL) {
    if (stage_is("")) {
        with_a_volume();
        pid_t pid = container("inside", 0);
        wait_for_file("runs");
        int fd = open(here("agents/limits"), O_RDWR);
        EQUAL(pwrite(fd, "garbage", 7, 0), 7);
        close(fd);
        note("torn");
        EQUAL(wait_for(pid), 0);
        return;
    }
    begin();
    EQUAL(allocate(1, NULL), 0);
    note("runs");
    wait_for_file("torn");
    usleep(50000);
    EQUAL(allocate(64, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(allocate(62, NULL), 0);
}

static void write_sequence(uint32_t sequence) {
    int fd = open(here("agents/limits"), O_RDWR);
    EQUAL(pwrite(fd, &sequence, sizeof sequence, offsetof(struct tessera_limits, head.sequence)), sizeof sequence);
    close(fd);
}

TEST(a_process_that_starts_while_the_agent_writes_waits_for_it, "memory=64", NULL) {
    if (stage_is("")) {
        with_a_volume();
        write_sequence(3);
        pid_t pid = container("inside", 0);
        usleep(100000);
        write_sequence(4);
        EQUAL(wait_for(pid), 0);
        return;
    }
    begin();
    EQUAL(allocate(64, NULL), 0);
    EQUAL(allocate(1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}
