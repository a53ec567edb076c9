/* The _ptsz and _ptds twins: the same call with the NULL stream meaning this thread's own. */
#include "driver.h"

#define TWIN(name, symbol, params, args) \
    CUresult name params                 \
    {                                    \
        sim_per_thread++;                \
        CUresult r = symbol args;        \
        sim_per_thread--;                \
        return r;                        \
    }

#define CUDA_FN(base, symbol, since, params)
#define CUDA_FN_PTSZ(base, symbol, since, twin_since, params, args) TWIN(symbol##_ptsz, symbol, params, args)
#define CUDA_FN_PTDS(base, symbol, since, twin_since, params, args) TWIN(symbol##_ptds, symbol, params, args)
#define CUDA_FN_ALIAS(base, symbol, since)
#include "../abi/cuda_functions.def"
