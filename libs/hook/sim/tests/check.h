/* Assertions for the test programs: the first failure prints its place and ends the program. */
#ifndef TESSERA_SIM_TESTS_CHECK_H
#define TESSERA_SIM_TESTS_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control.h"
#include "cuda_abi.h"
#include "nvml_abi.h"

#define MIB (UINT64_C(1) << 20)

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

#define EQUAL(left, right)                                                                                                                  \
    do {                                                                                                                                    \
        long long left_value = (long long)(left), right_value = (long long)(right);                                                         \
        if (left_value != right_value) {                                                                                                    \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld (%s)\n", __FILE__, __LINE__, #left, left_value, right_value, #right);              \
            exit(1);                                                                                                                        \
        }                                                                                                                                   \
    } while (0)

#define OK(call) EQUAL(call, 0)
#define BETWEEN(value, low, high)                                                                                                    \
    do {                                                                                                                             \
        double v_ = (double)(value);                                                                                                 \
        if (v_ < (double)(low) || v_ > (double)(high)) {                                                                             \
            fprintf(stderr, "%s:%d: %s is %g, not in %g..%g\n", __FILE__, __LINE__, #value, v_, (double)(low), (double)(high));      \
            exit(1);                                                                                                                 \
        }                                                                                                                            \
    } while (0)

static inline CUcontext start(void) /* init and a current primary context on device 0 */
{
    CUcontext ctx;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    return ctx;
}

static inline CUfunction kernel(const char *text, const char *name)
{
    CUmodule module;
    CUfunction function;
    OK(cuModuleLoadData(&module, text));
    OK(cuModuleGetFunction(&function, module, name));
    return function;
}

static inline CUresult launch(CUfunction f, unsigned blocks, CUstream stream) { return cuLaunchKernel(f, blocks, 1, 1, 256, 1, 1, 0, stream, NULL, NULL); }

static inline size_t free_bytes(void)
{
    size_t free_now, total;
    OK(cuMemGetInfo_v2(&free_now, &total));
    return free_now;
}

static inline void expect_exit(pid_t pid, int status) /* the child's way of ending, as from waitpid */
{
    int got;
    CHECK(waitpid(pid, &got, 0) == pid);
    EQUAL(got, status);
}

#endif
