/* sim: memory=1g context=16m clock=real kernel_ns=1000
 * Processes and threads allocate in every way at once, and some are killed: the total is always the sum, and ends at nothing. */
#include <pthread.h>
#include <signal.h>

#include "check.h"

enum { PROCESSES = 4, THREADS = 2, STEPS = 8000, LIVE = 32 };
static CUcontext ctx;

static uint64_t roll(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void *work(void *seed)
{
    struct {
        int kind;
        CUdeviceptr p;
        CUmemGenericAllocationHandle h;
    } held[LIVE] = {{0}};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    uint64_t random = (uint64_t)(uintptr_t)seed * 7919 + (uint64_t)getpid();
    CUstream stream;
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < STEPS + LIVE; i++) {
        int at = i < STEPS ? (int)(roll(&random) % LIVE) : i - STEPS;
        if (held[at].kind == 1)
            OK(cuMemFree_v2(held[at].p));
        else if (held[at].kind == 2)
            OK(cuMemFreeAsync(held[at].p, stream));
        else if (held[at].kind == 3)
            OK(cuMemRelease(held[at].h));
        CUresult r = CUDA_SUCCESS;
        int kind = held[at].kind || i >= STEPS ? 0 : 1 + (int)(roll(&random) % 3);
        if (kind == 1)
            r = cuMemAlloc_v2(&held[at].p, 1 + roll(&random) % (8 * MIB));
        else if (kind == 2)
            r = cuMemAllocAsync(&held[at].p, 1 + roll(&random) % (8 * MIB), stream);
        else if (kind == 3)
            r = cuMemCreate(&held[at].h, (1 + roll(&random) % 4) * 2 * MIB, &prop, 0);
        CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY);
        held[at].kind = r ? 0 : kind;
    }
    OK(cuStreamSynchronize(stream));
    return NULL;
}

static int process(void)
{
    pthread_t t[THREADS];
    ctx = start();
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    CHECK(cuSimConsistent());
    EQUAL(cuSimProcessUsed(0, getpid()), 16 * MIB); /* its context, and nothing else */
    return 0;
}

int main(void)
{
    for (int round = 0; round < 4; round++) {
        pid_t pid[PROCESSES];
        for (int i = 0; i < PROCESSES; i++)
            if ((pid[i] = fork()) == 0)
                exit(process());
        usleep(20000 + 7000 * (unsigned)round);
        kill(pid[0], SIGKILL);
        for (int i = 0; i < PROCESSES; i++) {
            int status;
            CHECK(waitpid(pid[i], &status, 0) == pid[i]);
            CHECK(status == 0 || (i == 0 && WIFSIGNALED(status)));
            CHECK(cuSimConsistent());
        }
        EQUAL(cuSimCardUsed(0), 0);
    }
    return 0;
}
