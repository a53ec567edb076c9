/* Threads: one process, many at once, and a fork in the midst of it. */
#include <pthread.h>
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

TEST(vm_fork_while_locks_are_held, "memory=1024", NULL) {
    pthread_t t[3];
    shared_context = begin();
    for (int i = 0; i < 3; i++)
        EQUAL(pthread_create(&t[i], NULL, until_told, NULL), 0);
    for (int i = 0; i < 100; i++) {
        pid_t pid = fork();
        if (pid == 0) { /* asks the hook, which must have let go of everything that the parent held */
            size_t bytes = 0;
            alarm(60); /* only what hangs */
            CU(cuDeviceTotalMem_v2)(&bytes, 0);
            _exit(0);
        }
        EQUAL(wait_for(pid), 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    EQUAL(charged(), 0);
}
