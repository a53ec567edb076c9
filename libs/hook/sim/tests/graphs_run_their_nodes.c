/* sim: clock=virtual context=0 memory=1g
 * Graphs: every way to instantiate, child graphs, memory nodes, updates. */
#include "check.h"

static const char text[] = "tessera-sim-module\nkernel ms ns=1000000\nkernel two ns=2000000\nkernel given ns=arg0\n";
static CUstream stream;

static uint64_t took(CUgraphExec exec)
{
    uint64_t from = cuSimNow();
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    return cuSimNow() - from;
}

static CUDA_KERNEL_NODE_PARAMS_v2 of(CUfunction f) { return (CUDA_KERNEL_NODE_PARAMS_v2){.func = f, .gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1}; }

static int hosted;
static void host(void *data) { hosted += *(int *)data; }

static void memory(void)
{
    CUgraph g;
    CUgraphNode alloc, release;
    CUgraphExec exec;
    CUDA_MEM_ALLOC_NODE_PARAMS p = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}}, .bytesize = 10 * MIB};
    uint64_t value;
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddMemAllocNode(&alloc, g, NULL, 0, &p));
    CHECK(p.dptr);
    OK(cuGraphInstantiateWithFlags(&exec, g, 0));
    EQUAL(cuSimCardUsed(0), 0);
    OK(cuGraphUpload(exec, stream));
    EQUAL(cuSimCardUsed(0), 10 * MIB);
    took(exec);
    EQUAL(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE); /* not freed yet */
    OK(cuMemFreeAsync(p.dptr, stream));
    EQUAL(cuSimCardUsed(0), 10 * MIB); /* reserved, not used */
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value));
    EQUAL(value, 0);
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(cuSimCardUsed(0), 0);
    OK(cuGraphAddMemFreeNode(&release, g, &alloc, 1, p.dptr));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphInstantiateWithFlags(&exec, g, 0));
    for (int i = 0; i < 3; i++)
        took(exec);
    EQUAL(cuSimCardUsed(0), 10 * MIB);
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(cuSimCardUsed(0), 0);
}

int main(void)
{
    CUgraph g, child, other;
    CUgraphNode a, b, c, h, nodes[8];
    CUgraphExec e1, e2, e3;
    CUgraphNodeType type;
    CUgraphExecUpdateResultInfo info;
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    size_t n = 8;
    int one = 1;
    start();
    CUfunction ms = kernel(text, "ms"), two = kernel(text, "two"), given = kernel(text, "given");
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUDA_KERNEL_NODE_PARAMS_v2 k = of(ms), k2 = of(two);
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddKernelNode_v2(&a, g, NULL, 0, &k));
    OK(cuGraphAddKernelNode(&b, g, &a, 1, (const CUDA_KERNEL_NODE_PARAMS_v1 *)&k2));
    OK(cuGraphCreate(&child, 0));
    OK(cuGraphAddKernelNode_v2(&c, child, NULL, 0, &k));
    OK(cuGraphAddChildGraphNode(&c, g, &b, 1, child));
    CUDA_HOST_NODE_PARAMS hp = {host, &one};
    OK(cuGraphAddHostNode(&h, g, &c, 1, &hp));
    OK(cuGraphGetNodes(g, NULL, &n));
    EQUAL(n, 4);
    OK(cuGraphGetNodes(g, nodes, &n));
    OK(cuGraphNodeGetType(nodes[2], &type));
    EQUAL(type, CU_GRAPH_NODE_TYPE_GRAPH);
    OK(cuGraphChildGraphNodeGetGraph(c, &other));
    n = 8;
    OK(cuGraphGetNodes(other, nodes, &n));
    EQUAL(n, 1);
    OK(cuGraphInstantiateWithFlags(&e1, g, 0));
    OK(cuGraphInstantiate_v2(&e2, g, NULL, NULL, 0));
    OK(cuGraphInstantiateWithParams(&e3, g, &params));
    EQUAL(took(e1), 4000000);
    EQUAL(took(e2), 4000000);
    EQUAL(took(e3), 4000000);
    EQUAL(hosted, 3);
    OK(cuGraphExecKernelNodeSetParams_v2(e1, a, &k2));
    EQUAL(took(e1), 5000000);
    EQUAL(took(e2), 4000000);
    OK(cuGraphNodeSetEnabled(e1, a, 0));
    EQUAL(took(e1), 3000000);

    OK(cuGraphClone(&other, g));
    n = 8;
    OK(cuGraphGetNodes(other, nodes, &n));
    OK(cuGraphKernelNodeSetParams_v2(nodes[0], &k2));
    OK(cuGraphExecUpdate_v2(e2, other, &info));
    EQUAL(took(e2), 5000000);
    OK(cuGraphAddEmptyNode(&nodes[4], other, NULL, 0));
    EQUAL(cuGraphExecUpdate_v2(e2, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    EQUAL(took(e2), 5000000);
    OK(cuGraphAddDependencies(other, &nodes[3], &nodes[0], 1));
    EQUAL(cuGraphInstantiateWithFlags(&e3, other, 0), CUDA_ERROR_INVALID_VALUE); /* a cycle */

    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    uint64_t ns = 123;
    void *args[] = {&ns};
    OK(cuLaunchKernel(given, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    OK(cuGraphLaunch(e1, stream));
    CUdeviceptr p;
    OK(cuMemAllocAsync(&p, MIB, stream));
    OK(cuMemsetD8Async(p, 7, 16, stream));
    OK(cuMemFreeAsync(p, stream));
    OK(cuStreamEndCapture(stream, &other));
    n = 0;
    OK(cuGraphGetNodes(other, NULL, &n));
    EQUAL(n, 5);
    OK(cuGraphInstantiateWithFlags(&e3, other, 0));
    EQUAL(cuSimCardUsed(0), 0); /* nothing ran while capturing */
    BETWEEN(took(e3), 4000123, 5000123);
    OK(cuDeviceGraphMemTrim(0));
    memory();
    OK(cuGraphExecDestroy(e1));
    EQUAL(cuGraphLaunch(e1, stream), CUDA_ERROR_INVALID_VALUE);
    return 0;
}
