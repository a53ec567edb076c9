/* Kernel launches, by every entry point. */
#include "graph.h"

typedef struct {
    unsigned gx, gy, gz, bx, by, bz, shared;
} Shape;

static CUresult check(CUfunction f, const Shape *s)
{
    ENTER();
    if (!f || (f->magic != SIM_FUNCTION && f->magic != 0x4b45524e))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!s->gx || !s->gy || !s->gz || !s->bx || !s->by || !s->bz || s->gx > 2147483647u || s->gy > 65535 || s->gz > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->bx > 1024 || s->by > 1024 || s->bz > 64 || (uint64_t)s->bx * s->by * s->bz > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult capture(CUfunction f, const Shape *shape, CUstream s, void **params, void **extra)
{
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS_v2 p = {.func = f, .gridDimX = shape->gx, .gridDimY = shape->gy, .gridDimZ = shape->gz, .blockDimX = shape->bx,
                                    .blockDimY = shape->by, .blockDimZ = shape->bz, .sharedMemBytes = shape->shared, .kernelParams = params, .extra = extra};
    CUresult r = sim_node_new(&node, sim_capture_graph(s), CU_GRAPH_NODE_TYPE_KERNEL, NULL, 0);
    if (!r)
        r = sim_node_set_kernel(node, &p);
    return r ? r : sim_capture_add(s, node);
}

static CUresult launch(CUfunction f, const Shape *shape, CUstream stream, void **params, void **extra)
{
    CUstream s;
    CUresult error, r = check(f, shape);
    if (!r && f->magic != SIM_FUNCTION)
        r = cuKernelGetFunction(&f, (CUkernel)f); /* a CUkernel may stand for a function */
    if (!r)
        r = sim_stream(stream, &s);
    if (r)
        return r;
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_capturing(s, &error))
        return error ? error : capture(f, shape, s, params, extra);
    if (!sim_context_alive(f->module->ctx, f->module->ctx_id))
        return CUDA_ERROR_INVALID_HANDLE;
    Kernel k = sim_kernel(f, shape->gx, shape->gy, shape->gz, params, extra);
    return sim_enqueue(s, &k);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                        CUstream stream, void **params, void **extra)
{
    Shape s = {gx, gy, gz, bx, by, bz, shared};
    return launch(function, &s, stream, params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra)
{
    ENTER();
    if (!c || (c->numAttrs && !c->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    Shape s = {c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes};
    return launch(function, &s, c->hStream, params, extra);
}

/* All blocks of a cooperative launch must be resident at once. */
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
                                   unsigned int shared, CUstream stream, void **params)
{
    Shape s = {gx, gy, gz, bx, by, bz, shared};
    int per_sm;
    CUresult r = check(function, &s);
    if (!r)
        r = cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, function, (int)(bx * by * bz), shared);
    if (r)
        return r;
    if ((uint64_t)gx * gy * gz > (uint64_t)per_sm * sim->config.card[function->module->ctx->card].sms)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return launch(function, &s, stream, params, NULL);
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags)
{
    ENTER();
    (void)flags;
    if (!list || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        CUDA_LAUNCH_PARAMS *p = &list[i];
        CUresult r = cuLaunchCooperativeKernel(p->function, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY, p->blockDimZ, p->sharedMemBytes, p->hStream, p->kernelParams);
        if (r)
            return r;
    }
    return CUDA_SUCCESS;
}

/* The launches of before CUDA 4. */
CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
    ENTER();
    if (!function || function->magic != SIM_FUNCTION)
        return CUDA_ERROR_INVALID_HANDLE;
    if (width < 1 || height < 1)
        return CUDA_ERROR_INVALID_VALUE;
    Shape s = {(unsigned)width, (unsigned)height, 1, function->block_threads, 1, 1, 0};
    return launch(function, &s, stream, NULL, NULL);
}

CUresult cuLaunchGrid(CUfunction function, int width, int height) { return cuLaunchGridAsync(function, width, height, NULL); }
CUresult cuLaunch(CUfunction function) { return cuLaunchGridAsync(function, 1, 1, NULL); }
