/* tessera-work: what a pod of the demo runs, one plain client of the driver. It looks at its cards,
 * asks for more than it may have, takes a part of its tile and keeps every card busy until SIGTERM.
 * Lines of JSON on standard output say what the driver answered. Knows nothing of the hook.
 *
 *   WORK_MEMORY_PERCENT  of the memory that it is shown on each card (50)
 *   WORK_BUSY            0: launches nothing (1)
 *   WORK_IDLE_SECONDS    with WORK_BUSY_SECONDS: idle and busy by turns, idle first (0)
 *   WORK_BUSY_SECONDS    (0)
 *   WORK_ASK_MIB         asks the first card for so much, again and again, and gives it back at once (0)
 *   WORK_SECONDS         ends by itself after so long; 0: at SIGTERM (0)
 *
 * Ends with 0, with 3 where there is no driver or no card, with 1 where the driver refuses what it
 * must not refuse. Its kernels are the simulated driver's. */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda_abi.h"

#define MIB ((size_t)1 << 20)
#define MOST_CARDS 16
#define KERNEL_NS 5000000ull
/* Launches that are under way on a card, so that it is busy however late this process is scheduled. */
#define AHEAD 4

static void *driver;
static volatile sig_atomic_t ended;

static void end(int number) {
    (void)number;
    ended = 1;
}

static void *get(const char *name) {
    void *found = dlsym(driver, name);
    if (!found) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(3);
    }
    return found;
}
#define CU(symbol) ((PFN_##symbol)get(#symbol))

static void must(CUresult result, const char *call) {
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", call, (int)result);
        exit(1);
    }
}
#define MUST(call) must(call, #call)

struct card {
    CUcontext context;
    CUfunction spin;
    CUevent done[AHEAD]; /* of the launches under way, next is the oldest */
    int next;
    CUdeviceptr taken;
    size_t total;
};

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What the card shows, what it says to a request beyond that, and a part of it taken. */
static void take(int index, struct card *card) {
    CUdevice device;
    CUmodule module;
    CUdeviceptr beyond = 0;
    char name[128], text[96];
    size_t bytes;
    MUST(CU(cuDeviceGet)(&device, index));
    MUST(CU(cuDeviceGetName)(name, sizeof name, device));
    MUST(CU(cuDevicePrimaryCtxRetain)(&card->context, device));
    MUST(CU(cuCtxSetCurrent)(card->context));
    size_t left;
    MUST(CU(cuMemGetInfo_v2)(&left, &card->total));
    CUresult refused = CU(cuMemAlloc_v2)(&beyond, card->total + MIB);
    if (refused == CUDA_SUCCESS)
        CU(cuMemFree_v2)(beyond);
    bytes = left / 100 * (size_t)number("WORK_MEMORY_PERCENT", 50);
    CUresult taken = bytes ? CU(cuMemAlloc_v2)(&card->taken, bytes) : CUDA_SUCCESS;
    printf("{\"event\":\"card\",\"index\":%d,\"name\":\"%s\",\"total_mib\":%zu,\"free_mib\":%zu,\"over_mib\":%zu,"
           "\"over_result\":%d,\"taken_mib\":%zu,\"taken_result\":%d}\n",
           index, name, card->total / MIB, left / MIB, card->total / MIB + 1, (int)refused, bytes / MIB, (int)taken);
    fflush(stdout);
    must(taken, "cuMemAlloc");
    snprintf(text, sizeof text, "tessera-sim-module\nkernel spin ns=%llu\n", KERNEL_NS);
    MUST(CU(cuModuleLoadData)(&module, text));
    MUST(CU(cuModuleGetFunction)(&card->spin, module, "spin"));
    for (int i = 0; i < AHEAD; i++)
        MUST(CU(cuEventCreate)(&card->done[i], CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
}

/* One more launch on every card, once the oldest of those under way has ended. */
static void spin(struct card *cards, int count) {
    PFN_cuLaunchKernel launch = CU(cuLaunchKernel);
    for (struct card *card = cards; card < cards + count; card++) {
        CUevent done = card->done[card->next];
        card->next = (card->next + 1) % AHEAD;
        MUST(CU(cuCtxSetCurrent)(card->context));
        MUST(CU(cuEventSynchronize)(done));
        MUST(launch(card->spin, 256, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL));
        MUST(CU(cuEventRecord)(done, NULL));
    }
}

/* Whether it is its turn to be busy. */
static int is_busy(double since, int otherwise) {
    int idle = number("WORK_IDLE_SECONDS", 0), busy = number("WORK_BUSY_SECONDS", 0);
    if (idle <= 0 || busy <= 0)
        return otherwise;
    double turn = now() - since;
    return turn - (double)(idle + busy) * (double)(long)(turn / (idle + busy)) >= idle;
}

/* What the driver says to a request that may fit one day; told when it says something else. */
static void ask(struct card *card, size_t mib) {
    static int told = -1;
    CUdeviceptr got = 0;
    size_t left, total;
    MUST(CU(cuCtxSetCurrent)(card->context));
    CUresult result = CU(cuMemAlloc_v2)(&got, mib * MIB);
    if (result == CUDA_SUCCESS)
        MUST(CU(cuMemFree_v2)(got));
    MUST(CU(cuMemGetInfo_v2)(&left, &total));
    if ((int)result == told)
        return;
    told = (int)result;
    printf("{\"event\":\"asked\",\"mib\":%zu,\"result\":%d,\"total_mib\":%zu}\n", mib, told, total / MIB);
    fflush(stdout);
}

int main(void) {
    struct card cards[MOST_CARDS] = {0};
    int count = 0, seconds = number("WORK_SECONDS", 0), busy = number("WORK_BUSY", 1);
    signal(SIGTERM, end);
    signal(SIGINT, end);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        printf("{\"event\":\"no driver\"}\n");
        return 3;
    }
    if (CU(cuInit)(0) != CUDA_SUCCESS || CU(cuDeviceGetCount)(&count) != CUDA_SUCCESS || count < 1) {
        printf("{\"event\":\"no card\"}\n");
        return 3;
    }
    count = count > MOST_CARDS ? MOST_CARDS : count;
    for (int i = 0; i < count; i++)
        take(i, &cards[i]);
    double began = now(), until = began + seconds;
    int asked = number("WORK_ASK_MIB", 0);
    while (!ended && (!seconds || now() < until)) {
        if (asked > 0)
            ask(&cards[0], (size_t)asked);
        if (is_busy(began, busy))
            spin(cards, count);
        else
            usleep(100000);
    }
    for (int i = 0; i < count; i++) {
        MUST(CU(cuCtxSetCurrent)(cards[i].context));
        MUST(CU(cuCtxSynchronize)());
        if (cards[i].taken)
            MUST(CU(cuMemFree_v2)(cards[i].taken));
    }
    printf("{\"event\":\"ended\"}\n");
    return 0;
}
