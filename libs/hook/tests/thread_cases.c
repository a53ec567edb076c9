/* Threads: one process, many at once, and a fork in the midst of it. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static CUcontext shared_context;
static int stop;

static void *allocator(void *seed) {
    unsigned s = (unsigned)(uintptr_t)seed;
    CU(cuCtxSetCurrent)(shared_context);
    for (int i = 0; i < 20000; i++) {
        CUdeviceptr p;
        s = s * 1103515245u + 12345u;
        if (CU(cuMemAlloc_v2)(&p, 4096 + (s >> 12)) == CUDA_SUCCESS)
            CU(cuMemFree_v2)(p);
    }
    return NULL;
}

static void *launcher(void *function) {
    CU(cuCtxSetCurrent)(shared_context);
    for (int i = 0; i < 3000; i++)
        EQUAL(CU(cuLaunchKernel_ptsz)((CUfunction)function, 8, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
    return NULL;
}

TEST(many_threads_leave_a_clean_account, "memory=1024 cores=90", "clock=scaled:10") {
    pthread_t t[8];
    shared_context = begin();
    CUfunction f = kernel(20000);
    for (uintptr_t i = 0; i < 8; i++)
        EQUAL(pthread_create(&t[i], NULL, i % 2 ? allocator : launcher, i % 2 ? (void *)(i + 1) : (void *)f), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    EQUAL(charged(), 0);
    EQUAL(CU(cuCtxSynchronize)(), 0);
}

static void *until_told(void *unused) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        allocator((void *)1);
    return unused;
}

static void *monitor(void *unused) {
    nvmlDevice_t device;
    nvmlMemory_t memory;
    (void)unused;
    EQUAL(NVML(nvmlInit_v2)(), 0);
    EQUAL(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device), 0);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        EQUAL(NVML(nvmlDeviceGetMemoryInfo)(device, &memory), 0);
    return NULL;
}

/* The application's own dlopen comes before its forks: what glibc leaves to a child that is forked in the
 * midst of one, another dlopen there ends with "Inconsistency detected by ld.so". */
static void open_libraries(void) {
    CHECK(dlopen("libnvidia-ml.so.1", RTLD_NOW));
    CHECK(dlopen("libcuda.so.1", RTLD_NOW));
}

/* One child after another, each asked by the caller's own function. FORKS says how many. */
static void fork_often(void (*then)(void)) {
    long forks = getenv("FORKS") ? atol(getenv("FORKS")) : 100;
    for (long i = 0; i < forks; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(60); /* only what hangs */
            then();
            _exit(0);
        }
        EQUAL(wait_for(pid), 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    fprintf(stderr, "    %ld forks\n", forks);
}

/* Asks the hook, which must have let go of everything that the parent's threads held. */
static void ask(void) {
    size_t bytes = 0;
    nvmlDevice_t device;
    nvmlMemory_t memory;
    CU(cuDeviceTotalMem_v2)(&bytes, 0);
    NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device);
    NVML(nvmlDeviceGetMemoryInfo)(device, &memory);
}

TEST(vm_fork_while_locks_are_held, "memory=1024", NULL) {
    pthread_t t[4];
    open_libraries();
    shared_context = begin();
    for (int i = 0; i < 4; i++)
        EQUAL(pthread_create(&t[i], NULL, i < 3 ? until_told : monitor, NULL), 0);
    fork_often(ask);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    EQUAL(charged(), 0);
}

static void begin_and_take(void) {
    begin();
    EQUAL(allocate(1, NULL), 0);
}

TEST(children_of_a_process_that_only_watches_begin, "memory=1024", NULL) {
    pthread_t t[2];
    open_libraries();
    for (int i = 0; i < 2; i++)
        EQUAL(pthread_create(&t[i], NULL, monitor, NULL), 0);
    fork_often(begin_and_take);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    begin();
    EQUAL(allocate(1024, NULL), 0); /* none of the dead holds any */
}

/* _Fork and clone call no handlers: the child must notice by itself that it holds nothing. */
TEST(a_child_that_no_handler_told_of_its_birth_starts_anew, "memory=1024", NULL) {
    CUdeviceptr p;
    begin();
    EQUAL(allocate(100, &p), 0);
    pid_t pid = (pid_t)syscall(SYS_fork);
    if (pid == 0) {
        size_t bytes = 0;
        CU(cuDeviceTotalMem_v2)(&bytes, 0);
        EQUAL(bytes, 1024 * MIB);
        _exit(0);
    }
    EQUAL(wait_for(pid), 0);
    EQUAL(charged(), 100 * MIB);
    EQUAL(CU(cuMemFree_v2)(p), 0);
    EQUAL(charged(), 0);
}

/* A thread of the parent watches the card, and is at that point of the library (it lingers there) when
 * another forks: the child, which then begins with CUDA, waits for nobody. */
static void begin_in_children_forked_at(const char *point) {
    pthread_t t;
    if (!getenv("TESSERA_LINGER_AT")) {
        char hook[512];
        snprintf(hook, sizeof hook, "%s/points/libtessera.so", getenv("TEST_BUILD"));
        setenv("LD_PRELOAD", hook, 1);
        setenv("TESSERA_LINGER_AT", point, 1);
        execl("/proc/self/exe", "cases", "x", (char *)NULL);
    }
    open_libraries();
    EQUAL(pthread_create(&t, NULL, monitor, NULL), 0);
    for (int i = 0; i < 5; i++) {
        usleep(20000 + 10000 * (unsigned)i);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(20); /* only what hangs */
            begin_and_take();
            _exit(0);
        }
        EQUAL(wait_for(pid), 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(t, NULL);
}

TEST(a_child_forked_while_the_limits_are_looked_at_begins, "memory=1024", NULL) {
    begin_in_children_forked_at("limits: locked");
}

TEST(a_child_forked_while_a_thread_begins_begins, "memory=1024", NULL) {
    begin_in_children_forked_at("start: begins");
}

TEST(a_child_forked_while_a_thread_starts_the_limits_begins, "memory=1024", NULL) {
    begin_in_children_forked_at("start: locked");
}
