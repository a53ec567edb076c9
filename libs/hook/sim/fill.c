/* Fills (memset). */
#include "graph.h"

#include <string.h>

static CUresult pattern(CUdeviceptr dst, unsigned value, unsigned element, size_t n)
{
    size_t bytes = n * element;
    CUresult r = CUDA_SUCCESS;
    sim_local_lock();
    while (bytes && !r) {
        Range *range = sim_range_at(dst);
        if (!range) {
            r = CUDA_ERROR_INVALID_VALUE;
            break;
        }
        size_t left = range->size - (dst - range->base), part = left < bytes ? left : bytes;
        unsigned char *to = part <= sim->config.data_bytes ? sim_data(dst, part, true) : NULL;
        if (to && element == 1)
            memset(to, (int)value, part);
        for (size_t i = 0; to && element > 1 && i + element <= part; i += element)
            memcpy(to + i, &value, element); /* little-endian: the low bytes are the element */
        dst += part;
        bytes -= part;
    }
    sim_local_unlock();
    return r;
}

void sim_transfer(const Transfer *t)
{
    if (t->fill) {
        pattern(t->dst, t->value, t->element, t->bytes / t->element);
    } else if (t->bytes) {
        sim_local_lock();
        sim_copy(t->dst, t->host_dst, t->src, t->host_src, t->bytes);
        sim_local_unlock();
    }
}

static CUresult fill(CUdeviceptr dst, unsigned value, unsigned element, size_t n, CUstream stream, bool wait)
{
    CUstream s;
    CUresult error, r = sim_stream(stream, &s);
    if (r)
        return r;
    if (dst % element)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_capturing(s, &error)) {
        Transfer t = {.dst = dst, .bytes = n * element, .fill = true, .value = value, .element = element};
        return error ? error : wait ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : sim_capture_transfer(s, &t);
    }
    if (wait && (r = sim_unsafe()))
        return r;
    if ((r = sim_enqueue_nothing(s)))
        return r;
    return pattern(dst, value, element, n); /* asynchronous on the device even when not called Async: no waiting */
}

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n) { return fill(dst, value, 1, n, NULL, true); }
CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t n) { return fill(dst, value, 2, n, NULL, true); }
CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t n) { return fill(dst, value, 4, n, NULL, true); }
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream) { return fill(dst, value, 1, n, stream, false); }
CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream) { return fill(dst, value, 2, n, stream, false); }
CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream) { return fill(dst, value, 4, n, stream, false); }

static CUresult fill_rows(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element, size_t width, size_t height, CUstream stream, bool wait)
{
    CUresult r = CUDA_SUCCESS;
    for (size_t y = 0; y < height && !r; y++)
        r = fill(dst + y * pitch, value, element, width, stream, wait);
    return r;
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height) { return fill_rows(dst, pitch, value, 1, width, height, NULL, true); }
CUresult cuMemsetD2D32_v2(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height) { return fill_rows(dst, pitch, value, 4, width, height, NULL, true); }
CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream) { return fill_rows(dst, pitch, value, 1, width, height, stream, false); }
CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream) { return fill_rows(dst, pitch, value, 4, width, height, stream, false); }
