/* sim: granule=512 memory=1g context=0 cards=2
 * VMM memory lives until the last release and the last unmap; pools keep what they reserved; arrays have their true sizes; sharing. */
#include <sys/socket.h>

#include "check.h"

static CUmemAllocationProp on_card(int device)
{
    CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return p;
}

static void send_fd(int socket, int fd)
{
    char byte = 0, space[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    CHECK(sendmsg(socket, &m, 0) == 1);
}

static int receive_fd(int socket)
{
    int fd;
    char byte, space[CMSG_SPACE(sizeof fd)];
    struct iovec io = {&byte, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    CHECK(recvmsg(socket, &m, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

static int importer(int socket) /* outlives the exporter's hold on the memory */
{
    CUmemGenericAllocationHandle h;
    CUipcMemHandle ipc;
    CUdeviceptr p, q;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    char text[16];
    int fd = receive_fd(socket);
    start();
    OK(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cuMemAddressReserve(&p, 40 * MIB, 0, 0, 0));
    OK(cuMemMap(p, 40 * MIB, 0, h, 0));
    OK(cuMemSetAccess(p, 40 * MIB, &access, 1));
    CHECK(read(socket, &ipc, sizeof ipc) == sizeof ipc);
    OK(cuIpcOpenMemHandle_v2(&q, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuMemcpyDtoH_v2(text, q, sizeof text));
    CHECK(strcmp(text, "from afar") == 0);
    EQUAL(cuSimCardUsed(0), 45 * MIB); /* counted once */
    OK(cuIpcCloseMemHandle(q));
    CHECK(write(socket, "x", 1) == 1);
    CHECK(read(socket, text, 1) == 1); /* the exporter has let go of the mapping memory */
    EQUAL(cuSimCardUsed(0), 40 * MIB);
    OK(cuMemUnmap(p, 40 * MIB));
    EQUAL(cuSimCardUsed(0), 40 * MIB);
    OK(cuMemRelease(h));
    EQUAL(cuSimCardUsed(0), 0);
    return 0;
}

static void sharing(void)
{
    int pair[2], fd;
    char byte;
    CUmemGenericAllocationHandle h;
    CUmemAllocationProp prop = on_card(0);
    CUipcMemHandle ipc;
    CUdeviceptr p;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t pid = fork();
    if (pid == 0)
        exit(importer(pair[1]));
    start();
    OK(cuMemCreate(&h, 40 * MIB, &prop, 0));
    OK(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemAlloc_v2(&p, 5 * MIB));
    OK(cuMemcpyHtoD_v2(p, "from afar", 10));
    OK(cuIpcGetMemHandle(&ipc, p));
    CUdeviceptr self;
    EQUAL(cuIpcOpenMemHandle_v2(&self, ipc, 1), CUDA_ERROR_INVALID_CONTEXT);
    send_fd(pair[0], fd);
    CHECK(write(pair[0], &ipc, sizeof ipc) == sizeof ipc);
    CHECK(read(pair[0], &byte, 1) == 1);
    OK(cuMemFree_v2(p));
    OK(cuMemRelease(h));
    CHECK(write(pair[0], "x", 1) == 1);
    expect_exit(pid, 0);
    EQUAL(cuSimCardUsed(0), 0);
}

static void mapping(void)
{
    CUmemGenericAllocationHandle h, again, other;
    CUmemAllocationProp prop = on_card(1);
    CUdeviceptr p;
    size_t granularity;
    uint64_t n = 20 * MIB;
    OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EQUAL(granularity, 2 * MIB);
    EQUAL(cuMemCreate(&h, 3 * MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemCreate(&h, 2048 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAddressReserve(&p, 200 * MIB, 0, 0, 0));
    OK(cuMemCreate(&h, n, &prop, 0));
    EQUAL(cuSimCardUsed(1), n); /* on the card it names, not the current one */
    EQUAL(cuSimCardUsed(0), 0);
    EQUAL(cuMemMap(p, 24 * MIB, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(p, n, 0, h, 0));
    EQUAL(cuMemMap(p + n - 2 * MIB, n, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(p + n, n, 0, h, 0));
    OK(cuMemRelease(h));
    EQUAL(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuSimCardUsed(1), n); /* still mapped */
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + 5)));
    CHECK(again == h);
    OK(cuMemCreate(&other, n, &prop, 0));
    OK(cuMemMap(p + 2 * n, n, 0, other, 0));
    OK(cuMemRelease(other));
    EQUAL(cuMemUnmap(p, n + 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemAddressFree(p, 200 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(p, 3 * n)); /* three mappings at once */
    EQUAL(cuSimCardUsed(1), n);
    OK(cuMemRelease(again));
    EQUAL(cuSimCardUsed(1), 0);
    OK(cuMemAddressFree(p, 200 * MIB));
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
    OK(cuMemCreate(&h, n, &prop, 0));
    EQUAL(cuSimCardUsed(1) + cuSimCardUsed(0), 0);
    OK(cuMemRelease(h));
}

static uint64_t of(CUmemoryPool pool, CUmemPool_attribute attr)
{
    uint64_t value;
    OK(cuMemPoolGetAttribute(pool, attr, &value));
    return value;
}

static void pools(void)
{
    CUmemoryPool pool, own;
    CUstream stream;
    CUdeviceptr p, q;
    uint64_t keep = 64 * MIB;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&p, 10 * MIB, stream));
    EQUAL(cuSimCardUsed(0), 32 * MIB); /* a chunk */
    OK(cuMemAllocAsync(&q, 30 * MIB, stream));
    EQUAL(of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 40 * MIB);
    EQUAL(of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * MIB);
    OK(cuMemFreeAsync(p, stream));
    EQUAL(cuSimCardUsed(0), 64 * MIB); /* until a synchronisation */
    OK(cuStreamSynchronize(stream));
    EQUAL(cuSimCardUsed(0), 30 * MIB);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&p, 60 * MIB, stream));
    OK(cuMemFree_v2(p));
    OK(cuMemFreeAsync(q, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(cuSimCardUsed(0), 64 * MIB);
    EQUAL(of(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 90 * MIB);
    OK(cuMemAlloc_v2(&p, 1000 * MIB)); /* a full card takes what the pool does not use */
    OK(cuMemFree_v2(p));
    OK(cuMemAllocAsync(&p, 1, stream));
    OK(cuMemFreeAsync(p, stream));
    OK(cuMemPoolTrimTo(pool, 0));
    EQUAL(cuSimCardUsed(0), 0);
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    OK(cuMemPoolCreate(&own, &props));
    OK(cuMemAllocFromPoolAsync(&p, 8 * MIB, own, stream));
    EQUAL(cuSimCardUsed(1), 32 * MIB);
    OK(cuMemPoolDestroy(own));
    EQUAL(cuSimCardUsed(1), 8 * MIB);
    OK(cuMemFreeAsync(p, stream));
    EQUAL(cuSimCardUsed(1), 0);
    EQUAL(cuMemAllocAsync(&p, 4096 * MIB, stream), CUDA_ERROR_OUT_OF_MEMORY);
}

static void others(void)
{
    CUarray array;
    CUmipmappedArray mipmap;
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY_MEMORY_REQUIREMENTS need;
    OK(cuArray3DCreate_v2(&array, &d));
    EQUAL(cuSimCardUsed(0), 16 * MIB);
    OK(cuArrayGetMemoryRequirements(&need, array, 0));
    EQUAL(need.size, 16 * MIB);
    OK(cuArrayDestroy(array));
    OK(cuMipmappedArrayCreate(&mipmap, &d, 11));
    BETWEEN(cuSimCardUsed(0), 16 * MIB * 4 / 3 - 512, 16 * MIB * 4 / 3 + 1024);
    OK(cuMipmappedArrayDestroy(mipmap));

    CUdeviceptr m;
    void *host;
    unsigned managed = 0;
    OK(cuMemAllocManaged(&m, 2000 * MIB, CU_MEM_ATTACH_GLOBAL)); /* larger than the card */
    EQUAL(cuSimCardUsed(0), 0);
    *(int *)(uintptr_t)m = 42;
    OK(cuMemPrefetchAsync(m, 2000 * MIB, 0, NULL));
    EQUAL(cuSimCardUsed(0), 1024 * MIB);
    OK(cuMemPrefetchAsync(m, 2000 * MIB, CU_DEVICE_CPU, NULL));
    EQUAL(cuSimCardUsed(0), 0);
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, m + 100));
    EQUAL(managed, 1);
    OK(cuMemFree_v2(m));
    OK(cuMemHostAlloc(&host, 512 * MIB, 0));
    EQUAL(cuSimCardUsed(0), 0);
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
    EQUAL(managed, CU_MEMORYTYPE_HOST);
    OK(cuMemFreeHost(host));
    int here;
    OK(cuMemHostRegister_v2(&here, sizeof here, 0));
    EQUAL(cuMemHostRegister_v2(&here, sizeof here, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostUnregister(&here));
}

int main(void)
{
    sharing();
    mapping();
    pools();
    others();
    CHECK(cuSimConsistent());
    return 0;
}
