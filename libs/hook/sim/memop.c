/* Operations of streams on single words: writes, and waits for a value. A word is written at the call, as copies are; a wait is over when
 * its stream gets there (assumed: whoever was to write the word has). */
#include "driver.h"

static CUresult word(CUdeviceptr address, unsigned bytes)
{
    sim_local_lock();
    bool ok = address % bytes == 0 && sim_range_at(address);
    sim_local_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult operate(CUstream stream, CUdeviceptr address, const void *value, unsigned bytes)
{
    CUstream s;
    CUresult error, r = sim_stream(stream, &s);
    if (!r)
        r = word(address, bytes);
    if (r)
        return r;
    if (sim_capturing(s, &error))
        return error ? error : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* such nodes are not simulated */
    r = sim_enqueue_nothing(s);
    if (r || !value)
        return r;
    sim_local_lock();
    r = sim_copy(address, NULL, 0, value, bytes);
    sim_local_unlock();
    return r;
}

#define WRITE(symbol, type)                                                                                                                        \
    CUresult symbol(CUstream stream, CUdeviceptr address, type value, unsigned int flags)                                                          \
    {                                                                                                                                              \
        return flags & ~1u ? CUDA_ERROR_INVALID_VALUE : operate(stream, address, &value, sizeof value);                                            \
    }
WRITE(cuStreamWriteValue32, cuuint32_t)
WRITE(cuStreamWriteValue32_v2, cuuint32_t)
WRITE(cuStreamWriteValue64, cuuint64_t)
WRITE(cuStreamWriteValue64_v2, cuuint64_t)

#define WAIT(symbol, type)                                                                    \
    CUresult symbol(CUstream stream, CUdeviceptr address, type value, unsigned int flags)     \
    {                                                                                         \
        (void)value, (void)flags;                                                             \
        return operate(stream, address, NULL, sizeof value);                                  \
    }
WAIT(cuStreamWaitValue32, cuuint32_t)
WAIT(cuStreamWaitValue32_v2, cuuint32_t)
WAIT(cuStreamWaitValue64, cuuint64_t)
WAIT(cuStreamWaitValue64_v2, cuuint64_t)

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *params, unsigned int flags)
{
    CUresult r = CUDA_SUCCESS;
    ENTER();
    if (!params || !count || count > 256 || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && !r; i++)
        switch (params[i].operation) {
        case CU_STREAM_MEM_OP_WRITE_VALUE_32: r = operate(stream, params[i].writeValue.address, &params[i].writeValue.value, 4); break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: r = operate(stream, params[i].writeValue.address, &params[i].writeValue.value64, 8); break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_32: r = operate(stream, params[i].writeValue.address, NULL, 4); break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64: r = operate(stream, params[i].writeValue.address, NULL, 8); break;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        case CU_STREAM_MEM_OP_BARRIER: break;
        default: r = CUDA_ERROR_INVALID_VALUE;
        }
    return r;
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *params, unsigned int flags) { return cuStreamBatchMemOp_v2(stream, count, params, flags); }
