/* sim: clock=virtual cuda=13020 memory=2g context=50m multicast=1
 * What PyTorch and its neighbours ask of a driver beside memory and launches: words of streams, callbacks, pageable memory, events of other
 * processes, user objects, the kernels of libraries, parts of a card, the log, multicast objects. */
#include "check.h"

static unsigned called, destroyed;
static void count_call(CUstream stream, int status, void *data)
{
    (void)stream;
    called += status == CUDA_SUCCESS && data == &called;
}
static void count_end(void *data) { destroyed += data == &destroyed; }
static void listen(void *data, CUlogLevel level, char *message, size_t length) { (void)data, (void)level, (void)message, (void)length; }

static void words_and_callbacks(void)
{
    CUdeviceptr p;
    CUstream s;
    CUdevice device = 9;
    uint64_t word = 0;
    CUlaunchAttributeValue value;
    OK(cuMemAlloc_v2(&p, MIB));
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -3));
    OK(cuStreamWriteValue32_v2(s, p, 7, 0));
    OK(cuStreamWaitValue32(s, p, 7, 0));
    CUstreamBatchMemOpParams ops[2] = {{.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32}, {.operation = CU_STREAM_MEM_OP_BARRIER}};
    ops[0].writeValue.address = p + 4;
    ops[0].writeValue.value = 9;
    OK(cuStreamBatchMemOp_v2(s, 2, ops, 0));
    EQUAL(cuStreamWriteValue64(s, p + 4, 1, 0), CUDA_ERROR_INVALID_VALUE); /* not aligned */
    OK(cuMemcpyDtoH_v2(&word, p, 8));
    EQUAL(word, (UINT64_C(9) << 32) + 7);
    OK(cuStreamAddCallback(s, count_call, &called, 0));
    OK(cuStreamSynchronize(s));
    EQUAL(called, 1);
    OK(cuStreamGetDevice(s, &device));
    EQUAL(device, 0);
    OK(cuStreamGetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    EQUAL(value.priority, -3);
    OK(cuStreamDestroy_v2(s));
    OK(cuMemFree_v2(p));
}

static char image[4096] = "in the program's own data"; /* not where mmap puts things */

static void pageable_memory(void)
{
    CUdeviceptr p;
    char back[sizeof image] = "", *heap = malloc(sizeof image);
    OK(cuMemAlloc_v2(&p, sizeof image));
    OK(cuMemcpy(p, (CUdeviceptr)(uintptr_t)image, sizeof image));
    OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)heap, p, sizeof image, NULL));
    OK(cuCtxSynchronize_v2(NULL));
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)back, (CUdeviceptr)(uintptr_t)heap, sizeof image));
    CHECK(strcmp(back, image) == 0);
    EQUAL(cuMemcpy(p + 4096 * MIB, p, 64), CUDA_ERROR_INVALID_VALUE); /* no device memory, and not the host's */
    free(heap);
    OK(cuMemFree_v2(p));
}

static void events_of_other_processes(int to, int from)
{
    CUipcEventHandle handle;
    CUevent event, plain;
    char c;
    CUfunction f = kernel("tessera-sim-module\nkernel k ns=5000000\n", "k");
    OK(cuEventCreate(&plain, 0));
    EQUAL(cuIpcGetEventHandle(&handle, plain), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    OK(launch(f, 108, NULL));
    OK(cuEventRecord(event, NULL));
    CHECK(write(to, &handle, sizeof handle) == sizeof handle);
    CHECK(read(from, &c, 1) == 1);
    EQUAL(cuIpcOpenEventHandle(&plain, handle), CUDA_ERROR_INVALID_CONTEXT); /* its own */
}

static int importer(int from, int to)
{
    CUipcEventHandle handle;
    CUevent event;
    float ms;
    CHECK(read(from, &handle, sizeof handle) == sizeof handle);
    start();
    OK(cuIpcOpenEventHandle(&event, handle));
    uint64_t before = cuSimNow();
    OK(cuEventSynchronize(event)); /* time passes until the other's kernel is over */
    CHECK(cuSimNow() >= before + 4000000);
    OK(cuEventQuery(event));
    OK(cuStreamWaitEvent(NULL, event, 0));
    EQUAL(cuEventElapsedTime(&ms, event, event), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy_v2(event));
    CHECK(write(to, "x", 1) == 1);
    return 0;
}

static void user_objects(void)
{
    CUuserObject object;
    CUgraph graph;
    CUgraphExec exec;
    OK(cuGraphCreate(&graph, 0));
    OK(cuUserObjectCreate(&object, &destroyed, count_end, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    EQUAL(destroyed, 0); /* what is instantiated keeps it */
    OK(cuGraphExecDestroy(exec));
    EQUAL(destroyed, 1);
    EQUAL(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
}

static void kernels_of_libraries(void)
{
    CUlibrary library;
    CUkernel kernels[2], again;
    CUlibrary back;
    unsigned n = 0;
    const char *name;
    OK(cuLibraryLoadData(&library, "tessera-sim-module\nkernel a ns=1\nkernel b ns=1\n", NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernelCount(&n, library));
    EQUAL(n, 2);
    OK(cuLibraryEnumerateKernels(kernels, 2, library));
    OK(cuKernelGetName(&name, kernels[0]));
    OK(cuLibraryGetKernel(&again, library, name));
    CHECK(again == kernels[0]);
    OK(cuKernelGetLibrary(&back, again));
    CHECK(back == library);
    OK(cuLibraryUnload(library));
}

static void parts_of_a_card(void)
{
    CUdevResource all, part[2], rest;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    unsigned n = 2;
    OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevSmResourceSplitByCount(NULL, &n, &all, NULL, 0, 15));
    EQUAL(n, 6); /* of 108 SMs, in sixteens */
    n = 2;
    OK(cuDevSmResourceSplitByCount(part, &n, &all, &rest, 0, 15));
    CHECK(n == 2 && part[0].sm.smCount == 16 && rest.sm.smCount == 76);
    n = 1;
    EQUAL(cuDevSmResourceSplitByCount(part, &n, &all, &rest, 0, 200), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    OK(cuDevResourceGenerateDesc(&desc, part, 1));
    OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuGreenCtxGetDevResource(green, &all, CU_DEV_RESOURCE_TYPE_SM));
    EQUAL(all.sm.smCount, 16);
    OK(cuCtxGetDevResource(NULL, &all, CU_DEV_RESOURCE_TYPE_SM));
    EQUAL(all.sm.smCount, 108);
    OK(cuGreenCtxDestroy(green));
}

static void multicast(void)
{
    CUmulticastObjectProp prop = {.numDevices = 1, .size = 4 * MIB};
    CUmemAllocationProp memory = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle object, bound;
    size_t granularity, before = free_bytes();
    int has = 0;
    OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
    EQUAL(has, 1);
    OK(cuMulticastGetGranularity(&granularity, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
    OK(cuMulticastCreate(&object, &prop));
    OK(cuMulticastAddDevice(object, 0));
    EQUAL(free_bytes(), before); /* nothing yet */
    OK(cuMemCreate(&bound, 2 * granularity, &memory, 0));
    OK(cuMulticastBindMem_v2(object, 0, 0, bound, 0, 2 * granularity, 0));
    OK(cuMemRelease(bound));
    EQUAL(free_bytes(), before - 4 * MIB); /* what is bound stays */
    OK(cuMulticastUnbind(object, 0, 0, 4 * MIB));
    EQUAL(free_bytes(), before);
    OK(cuMemCreate(&bound, 4 * MIB, &memory, 0));
    OK(cuMulticastBindMem(object, 0, bound, 0, 4 * MIB, 0));
    OK(cuMemRelease(bound));
    OK(cuMemRelease(object));
    EQUAL(free_bytes(), before); /* and goes with the object */
}

int main(void)
{
    int down[2], up[2];
    CUlogsCallbackHandle log;
    CUmemoryPool pool, same;
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    pid_t pid = fork();
    if (pid == 0)
        exit(importer(down[0], up[1]));
    OK(cuLogsRegisterCallback(listen, NULL, &log)); /* before cuInit, as PyTorch does */
    start();
    words_and_callbacks();
    pageable_memory();
    user_objects();
    kernels_of_libraries();
    parts_of_a_card();
    multicast();
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemGetDefaultMemPool(&same, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK(pool == same);
    events_of_other_processes(down[1], up[0]);
    OK(cuLogsUnregisterCallback(log));
    expect_exit(pid, 0);
    return 0;
}
