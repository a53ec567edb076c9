#include "harness.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TESTS 1024
static const struct test *tests[TESTS];
static int count;
static const char *self;

void harness_add(const struct test *test) {
    if (count < TESTS)
        tests[count++] = test;
}

const char *dir(void) {
    return getenv("TEST_DIR");
}

static void *library(const char *name) {
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(handle);
    return handle;
}

void *driver_get(const char *name) {
    static void *handle;
    if (!handle)
        handle = library("libcuda.so.1");
    return dlsym(handle, name);
}

void *nvml_get(const char *name) {
    static void *handle;
    if (!handle)
        handle = library("libnvidia-ml.so.1");
    return dlsym(handle, name);
}

CUcontext begin(void) {
    CUcontext context;
    EQUAL(CU(cuInit)(0), 0);
    EQUAL(CU(cuDevicePrimaryCtxRetain)(&context, 0), 0);
    EQUAL(CU(cuCtxSetCurrent)(context), 0);
    return context;
}

CUfunction kernel(uint64_t ns) {
    char text[128];
    CUmodule module;
    CUfunction function;
    snprintf(text, sizeof text, "tessera-sim-module\nkernel spin ns=%llu\n", (unsigned long long)ns);
    EQUAL(CU(cuModuleLoadData)(&module, text), 0);
    EQUAL(CU(cuModuleGetFunction)(&function, module, "spin"), 0);
    return function;
}

CUresult allocate(size_t mib, CUdeviceptr *p) {
    CUdeviceptr ignored;
    return CU(cuMemAlloc_v2)(p ? p : &ignored, mib * MIB);
}

void uuid_of(int card, char text[64]) {
    unsigned char b[16];
    for (int i = 0; i < 16; i++)
        b[i] = (unsigned char)(i ? 0x51 * (i + 1) + 29 * card : card);
    snprintf(text, 64, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
             b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static void quietly(const char *format, const char *a, const char *b, const char *c) {
    char command[2048];
    snprintf(command, sizeof command, format, a, b, c);
    if (system(command) != 0)
        fprintf(stderr, "failed: %s\n", command);
}

void set_limits(const char *words) {
    char uuid[64], path[512];
    uuid_of(0, uuid);
    snprintf(path, sizeof path, "%s/limits", dir());
    char all[1024];
    snprintf(all, sizeof all, "card=%s %s", uuid, words);
    quietly("env -u LD_PRELOAD %s/tessera-limits %s %s", getenv("TEST_BUILD"), path, all);
}

int usage_is_there(void) {
    char path[512];
    struct stat found;
    snprintf(path, sizeof path, "%s/usage", dir());
    return !stat(path, &found) && found.st_size >= TESSERA_USAGE_SIZE;
}

const struct tessera_usage *usage(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/usage", dir());
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    void *at = mmap(NULL, TESSERA_USAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    return at;
}

uint64_t charged(void) {
    const struct tessera_usage *now = usage();
    uint64_t bytes = now->card[0].charged_bytes;
    munmap((void *)(uintptr_t)now, TESSERA_USAGE_SIZE);
    return bytes;
}

uint64_t sim_used(void) {
    uint64_t (*used)(int) = (uint64_t(*)(int))(uintptr_t)driver_get("cuSimCardUsed");
    return used ? used(0) : 0;
}

uint64_t harness_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t sim_now(void) {
    uint64_t (*now)(void) = (uint64_t(*)(void))(uintptr_t)driver_get("cuSimNow");
    CHECK(now);
    return now();
}

void sim_sleep(uint64_t ns) {
    void (*sleeping)(uint64_t) = (void (*)(uint64_t))(uintptr_t)driver_get("cuSimSleep");
    CHECK(sleeping);
    sleeping(ns);
}

uint64_t sim_busy(pid_t pid) {
    uint64_t (*busy)(int, int) = (uint64_t(*)(int, int))(uintptr_t)driver_get("cuSimBusy");
    CHECK(busy);
    return busy(0, pid);
}

pid_t child(void (*run)(void *), void *with) {
    pid_t pid = fork();
    if (pid == 0) {
        run(with);
        _exit(0);
    }
    return pid;
}

int wait_for(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int until(int (*true_now)(void *), void *with) {
    for (int i = 0; i < 12000; i++) {
        if (true_now(with))
            return 1;
        usleep(5000);
    }
    return 0;
}

static void set_path(const char *variable, const char *file) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir(), file);
    setenv(variable, path, 1);
}

static void readlink_self(char *path, size_t size) {
    ssize_t got = readlink("/proc/self/exe", path, size - 1);
    path[got > 0 ? got : 0] = 0;
}

/* In the child that becomes the test. */
static void become(const struct test *test, const char *build) {
    char path[512];
    setenv("TEST_BUILD", build, 1);
    set_path("TESSERA_USAGE", "usage");
    set_path("TESSERA_LIMITS", "limits");
    set_path("TESSERA_SIM_STATE", "machine");
    if (test->sim)
        setenv("TESSERA_SIM_CONFIG", test->sim, 1);
    if (test->limits)
        set_limits(test->limits);
    snprintf(path, sizeof path, "%s/%s", build, getenv("TEST_DRIVER") ? getenv("TEST_DRIVER") : "sim");
    setenv("LD_LIBRARY_PATH", path, 1);
    snprintf(path, sizeof path, "%s/%s", build, getenv("TEST_HOOK") ? getenv("TEST_HOOK") : "libtessera.so");
    const char *first = getenv("TEST_FIRST"); /* a sanitizer's library must come before all others */
    char preload[1100];
    snprintf(preload, sizeof preload, "%s%s%s", first ? first : "", first ? ":" : "", path);
    setenv("LD_PRELOAD", preload, 1);
    setenv("TEST_CASE", test->name, 1);
    alarm(getenv("SOAK") || getenv("FORKS") || getenv("BENCH") ? 3600 : 300); /* only what hangs: a busy machine is slow */
    if (getenv("TEST_UNDER")) {
        readlink_self(path, sizeof path);
        execlp("valgrind", "valgrind", "-q", "--error-exitcode=9", "--trace-children=no", path, test->name, (char *)NULL);
    }
    execl(self, self, test->name, (char *)NULL);
    _exit(127);
}

static int run_one(const struct test *test, const char *build) {
    char folder[] = "/dev/shm/tessera-test-XXXXXX", fallback[] = "/tmp/tessera-test-XXXXXX";
    char *made = mkdtemp(folder) ? folder : mkdtemp(fallback);
    setenv("TEST_DIR", made, 1);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        become(test, build);
    }
    int status = wait_for(pid);
    kill(-pid, SIGKILL); /* whatever it left running */
    clock_gettime(CLOCK_MONOTONIC, &b);
    double s = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
    printf("%s %s %.2f s%s\n", status == 0 ? "ok  " : status == 77 ? "skip" : "FAIL", test->name, s,
           status > 128 ? " (signal)" : "");
    fflush(stdout);
    if (!getenv("TEST_KEEP"))
        quietly("rm -rf %s%s%s", made, "", "");
    return status == 0 || status == 77;
}

int main(int argc, char **argv) {
    self = "/proc/self/exe";
    const char *running = getenv("TEST_CASE");
    for (int i = 0; running && i < count; i++)
        if (!strcmp(tests[i]->name, running)) {
            tests[i]->run();
            return 0;
        }
    if (argc < 2)
        return 2;
    int failed = 0, ran = 0;
    for (int i = 0; i < count; i++) {
        int wanted = argc == 2;
        for (int j = 2; j < argc; j++)
            wanted |= argv[j][0] == '=' ? !strcmp(tests[i]->name, argv[j] + 1) : strstr(tests[i]->name, argv[j]) != NULL;
        if (wanted) {
            failed += !run_one(tests[i], argv[1]);
            ran++;
        }
    }
    printf("%d of %d passed\n", ran - failed, ran);
    return failed != 0;
}
