/* What a function says about itself, and occupancy. */
#include "driver.h"

#define FUNCTION(f)                                  \
    ENTER();                                         \
    if (!(f) || (f)->magic != SIM_FUNCTION)          \
    return CUDA_ERROR_INVALID_HANDLE

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attrib, CUfunction function)
{
    FUNCTION(function);
    if (!value || (int)attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = function->attribute[attrib];
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attrib, int value)
{
    FUNCTION(function);
    if ((int)attrib < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || attrib >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    function->attribute[attrib] = value;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    FUNCTION(function);
    (void)config;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
    FUNCTION(function);
    if (x < 1 || y < 1 || z < 1)
        return CUDA_ERROR_INVALID_VALUE;
    function->block_threads = (unsigned)x * (unsigned)y * (unsigned)z;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    FUNCTION(function);
    NEED(name);
    *name = function->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    FUNCTION(function);
    NEED(module);
    *module = function->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    FUNCTION(function);
    NEED(offset);
    if (index || !function->from_argument)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    if (size)
        *size = sizeof(uint64_t);
    return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    FUNCTION(function);
    NEED(state);
    *state = function->module->loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function)
{
    FUNCTION(function);
    return sim_module_load(function->module);
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config)
{
    FUNCTION(function);
    (void)config;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int block_size)
{
    FUNCTION(function);
    if (!bytes || blocks < 1 || block_size < 1)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = 166912 / (unsigned)blocks;
    return CUDA_SUCCESS;
}

/* Clusters are of one block here. */
CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function, const CUlaunchConfig *config)
{
    FUNCTION(function);
    if (!size || !config)
        return CUDA_ERROR_INVALID_VALUE;
    *size = 1;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
    int blocks = 0;
    FUNCTION(function);
    if (!clusters || !config)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, (int)(config->blockDimX * config->blockDimY * config->blockDimZ), config->sharedMemBytes);
    *clusters = blocks * (int)sim->config.card[function->module->ctx->card].sms;
    return r;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block_size, size_t shared, unsigned int flags)
{
    FUNCTION(function);
    (void)flags;
    if (!blocks || block_size < 1)
        return CUDA_ERROR_INVALID_VALUE;
    int by_threads = 2048 / ((block_size + 31) / 32 * 32), by_shared = shared ? (int)(167936 / (shared + 1024)) : 32;
    *blocks = block_size > 1024 ? 0 : by_threads < by_shared ? by_threads : by_shared;
    *blocks = *blocks > 32 ? 32 : *blocks;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size, size_t shared)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared, 0);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, CUoccupancyB2DSize size, size_t shared, int limit)
{
    FUNCTION(function);
    (void)size, (void)shared;
    if (!grid || !block)
        return CUDA_ERROR_INVALID_VALUE;
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    *grid = (int)sim->config.card[function->module->ctx->card].sms * (2048 / *block);
    return CUDA_SUCCESS;
}
