/* The CUDA driver's binary interface as far as this project calls, wraps or simulates it.
 *
 * Written from ABI facts; no vendor header is copied. Names, values and layouts are the driver's; sim/tests/abi_check.sh compares
 * them with the real headers where those are at hand. Additive only: the hook and the simulated driver both compile against it.
 * On top of the real names, a type PFN_<symbol> exists for every function. */
#ifndef TESSERA_ABI_CUDA_ABI_H
#define TESSERA_ABI_CUDA_ABI_H

#include "cuda_results.h"
#include "cuda_structs.h"

#ifndef CUDA_ABI_API
#define CUDA_ABI_API __attribute__((visibility("default")))
#endif

/* The descriptors of before CUDA 3.2: drivers still export the functions that take them. */
typedef struct {
    unsigned int Width, Height;
    CUarray_format Format;
    unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;
typedef struct {
    unsigned int Width, Height, Depth;
    CUarray_format Format;
    unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;

#define CUDA_FN(base, symbol, since, params) \
    CUDA_ABI_API CUresult symbol params;     \
    typedef CUresult(*PFN_##symbol) params;
#define CUDA_FN_PTSZ(base, symbol, since, twin_since, params, args) \
    CUDA_FN(base, symbol, since, params)                            \
    CUDA_FN(base, symbol##_ptsz, twin_since, params)
#define CUDA_FN_PTDS(base, symbol, since, twin_since, params, args) \
    CUDA_FN(base, symbol, since, params)                            \
    CUDA_FN(base, symbol##_ptds, twin_since, params)
#define CUDA_FN_ALIAS(base, symbol, since)
#include "cuda_functions.def"
#undef CUDA_FN
#undef CUDA_FN_PTSZ
#undef CUDA_FN_PTDS
#undef CUDA_FN_ALIAS

#endif
