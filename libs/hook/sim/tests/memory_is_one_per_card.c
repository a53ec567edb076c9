/* sim: granule=512 memory=1g context=100m
 * One physical memory that all processes share; what a process holds ends with it. */
#include <signal.h>

#include "check.h"

static int gate[2], report[2];

static void tell(void) { CHECK(write(report[1], "x", 1) == 1); }
static void hear(int fd)
{
    char c;
    CHECK(read(fd, &c, 1) == 1);
}

static void other(void)
{
    CUdeviceptr p;
    start();
    OK(cuMemAlloc_v2(&p, 300 * MIB));
    tell();
    hear(gate[0]);
    for (;;) /* killed while it allocates */
        if (cuMemAlloc_v2(&p, MIB) == CUDA_SUCCESS)
            cuMemFree_v2(p);
}

int main(void)
{
    CUdeviceptr p, q, small[100];
    size_t pitch, size;
    CUdeviceptr base;
    CHECK(pipe(gate) == 0 && pipe(report) == 0);
    pid_t pid = fork();
    if (pid == 0)
        other();
    hear(report[0]);
    CUcontext ctx = start();
    size_t total;
    OK(cuDeviceTotalMem_v2(&total, 0));
    EQUAL(total, 1024 * MIB);
    EQUAL(free_bytes(), (1024 - 100 - 100 - 300) * MIB);
    EQUAL(cuMemAlloc_v2(&p, 525 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuMemAlloc_v2(&p, SIZE_MAX - 5), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc_v2(&p, 524 * MIB));
    EQUAL(free_bytes(), 0);
    CHECK(write(gate[1], "x", 1) == 1);
    usleep(20000);
    kill(pid, SIGKILL);
    expect_exit(pid, SIGKILL);
    EQUAL(free_bytes(), 400 * MIB); /* its context and allocations are gone */
    OK(cuMemAlloc_v2(&q, 400 * MIB));
    OK(cuMemFree_v2(q));
    OK(cuMemFree_v2(p));
    EQUAL(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    EQUAL(free_bytes(), 924 * MIB);
    CHECK(cuSimConsistent());

    for (int i = 0; i < 100; i++)
        OK(cuMemAlloc_v2(&small[i], 1)); /* rounded up to 512 bytes */
    EQUAL(free_bytes(), 924 * MIB - 100 * 512);
    OK(cuMemGetAddressRange_v2(&base, &size, small[7]));
    CHECK(base == small[7] && size == 1);
    for (int i = 0; i < 100; i++)
        OK(cuMemFree_v2(small[i]));
    OK(cuMemAllocPitch_v2(&p, &pitch, 1000, 7, 4));
    EQUAL(pitch, 1024);
    EQUAL(free_bytes(), 924 * MIB - 7 * 1024);
    OK(cuMemFree_v2(p));

    CUcontext second;
    OK(cuCtxCreate_v2(&second, 0, 0));
    EQUAL(free_bytes(), 824 * MIB);
    OK(cuMemAlloc_v2(&p, 10 * MIB));
    OK(cuCtxDestroy_v2(second)); /* with everything in it */
    OK(cuCtxSetCurrent(ctx));
    EQUAL(free_bytes(), 924 * MIB);
    EQUAL(cuCtxPushCurrent_v2(second), CUDA_ERROR_CONTEXT_IS_DESTROYED);

    char text[64] = "kept on the card", back[64] = "";
    OK(cuMemAlloc_v2(&p, 4096));
    OK(cuMemcpyHtoD_v2(p + 100, text, sizeof text));
    OK(cuMemAlloc_v2(&q, 4096));
    OK(cuMemcpyDtoD_v2(q + 5, p + 100, sizeof text));
    OK(cuMemcpyDtoH_v2(back, q + 5, sizeof back));
    CHECK(strcmp(text, back) == 0);
    OK(cuMemsetD32_v2(p, 0x01020304, 4));
    OK(cuMemcpyDtoH_v2(back, p, 16));
    CHECK(back[0] == 4 && back[15] == 1);
    EQUAL(cuMemcpyHtoD_v2(q + 4090, text, 64), CUDA_ERROR_INVALID_VALUE);

    OK(cuDevicePrimaryCtxRetain(&second, 0));
    CHECK(second == ctx);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    EQUAL(cuSimCardUsed(0), 100 * MIB + 2 * 4096);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    EQUAL(cuSimCardUsed(0), 0);
    EQUAL(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
    pid = fork();
    if (pid == 0)
        exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED && cuMemFree_v2(0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    expect_exit(pid, 0); /* contexts do not survive fork */
    return 0;
}
