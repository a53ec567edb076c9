/* The driver's log (CUDA 12.9): it can be listened to, but nothing is ever said in it. */
#include "driver.h"

#include <stdio.h>

struct CUlogsCallbackEntry_st {
    uint32_t magic;
    CUlogsCallback callback;
    void *data;
};
enum { SIM_LISTENER = 0x4c4f4753 };

CUresult cuLogsRegisterCallback(CUlogsCallback callback, void *data, CUlogsCallbackHandle *handle)
{
    if (!callback)
        return CUDA_ERROR_INVALID_VALUE;
    CUlogsCallbackHandle h = sim_object_new(SIM_LISTENER, sizeof *h);
    if (!h)
        return CUDA_ERROR_OUT_OF_MEMORY;
    h->callback = callback;
    h->data = data;
    if (handle)
        *handle = h;
    return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle)
{
    if (!handle || handle->magic != SIM_LISTENER)
        return CUDA_ERROR_INVALID_VALUE;
    sim_object_free(handle, sizeof *handle);
    return CUDA_SUCCESS;
}

CUresult cuLogsCurrent(CUlogIterator *iterator, unsigned int flags)
{
    if (!iterator || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *iterator = 0;
    return CUDA_SUCCESS;
}

CUresult cuLogsDumpToFile(CUlogIterator *iterator, const char *path, unsigned int flags)
{
    (void)iterator;
    FILE *file = path && !flags ? fopen(path, "we") : NULL;
    if (file)
        fclose(file);
    return file ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
    (void)iterator;
    if (!buffer || !size || !*size || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *buffer = 0;
    *size = 0;
    return CUDA_SUCCESS;
}
