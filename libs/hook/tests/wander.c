#include "wander.h"

#define FITS(call)                                \
    do {                                          \
        CUresult r_ = (call);                     \
        if (r_ == CUDA_ERROR_OUT_OF_MEMORY)       \
            return 0;                             \
        EQUAL(r_, 0);                             \
    } while (0)
#define GRANULE (2 * MIB)
/* Looked up once: the program asks for ten million operations. */
#define GET(symbol)                       \
    ({                                    \
        static PFN_##symbol found;        \
        if (!found)                       \
            found = CU(symbol);           \
        found;                            \
    })

static CUmemoryPool own_pool(void) {
    static CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (!pool)
        EQUAL(CU(cuMemPoolCreate)(&pool, &props), 0);
    return pool;
}

static int take_array(int kind, size_t bytes, struct thing *out) {
    CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 1024, .Height = 1 + bytes / 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUarray array;
    CUmipmappedArray mipmap;
    if (kind == WANDER_ARRAY) {
        FITS(GET(cuArray3DCreate_v2)(&array, &desc));
        out->handle = array;
    } else {
        FITS(GET(cuMipmappedArrayCreate)(&mipmap, &desc, 4));
        out->handle = mipmap;
    }
    return 1;
}

/* Created, mapped and released: only the mapping holds it. */
static int take_mapped(size_t bytes, struct thing *out) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    out->bytes = (bytes + GRANULE - 1) / GRANULE * GRANULE;
    FITS(GET(cuMemCreate)(&handle, out->bytes, &prop, 0));
    EQUAL(GET(cuMemAddressReserve)(&out->at, out->bytes, 0, 0, 0), 0);
    EQUAL(GET(cuMemMap)(out->at, out->bytes, 0, handle, 0), 0);
    EQUAL(GET(cuMemRelease)(handle), 0);
    return 1;
}

int wander_take(int kind, size_t bytes, struct thing *out) {
    size_t pitch;
    *out = (struct thing){.kind = kind, .bytes = bytes};
    switch (kind) {
    case WANDER_LINEAR: FITS(GET(cuMemAlloc_v2)(&out->at, bytes)); return 1;
    case WANDER_PITCH: FITS(GET(cuMemAllocPitch_v2)(&out->at, &pitch, 1000, 1 + bytes / 1024, 4)); return 1;
    case WANDER_VMM: return take_mapped(bytes, out);
    case WANDER_POOL: FITS(GET(cuMemAllocFromPoolAsync)(&out->at, bytes, own_pool(), NULL)); return 1;
    default: return take_array(kind, bytes, out);
    }
}

void wander_give(const struct thing *thing) {
    switch (thing->kind) {
    case WANDER_VMM:
        EQUAL(GET(cuMemUnmap)(thing->at, thing->bytes), 0);
        EQUAL(GET(cuMemAddressFree)(thing->at, thing->bytes), 0);
        break;
    case WANDER_POOL: EQUAL(GET(cuMemFreeAsync)(thing->at, NULL), 0); break;
    case WANDER_ARRAY: EQUAL(GET(cuArrayDestroy)((CUarray)thing->handle), 0); break;
    case WANDER_MIPMAP: EQUAL(GET(cuMipmappedArrayDestroy)((CUmipmappedArray)thing->handle), 0); break;
    default: EQUAL(GET(cuMemFree_v2)(thing->at), 0);
    }
}

void wander_graph(size_t bytes) {
    CUgraph graph;
    CUgraphNode alloc, release;
    CUgraphExec exec;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = bytes};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    EQUAL(GET(cuGraphCreate)(&graph, 0), 0);
    if (GET(cuGraphAddMemAllocNode)(&alloc, graph, NULL, 0, &params) == 0) {
        EQUAL(GET(cuGraphAddMemFreeNode)(&release, graph, &alloc, 1, params.dptr), 0);
        EQUAL(GET(cuGraphInstantiateWithFlags)(&exec, graph, 0), 0);
        CUresult r = GET(cuGraphLaunch)(exec, NULL);
        CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY);
        EQUAL(GET(cuGraphExecDestroy)(exec), 0);
    }
    EQUAL(GET(cuGraphDestroy)(graph), 0);
}

/* xorshift: the low bits of a linear congruence repeat. */
static unsigned next(unsigned *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

size_t wander_least = 512, wander_most = 16 * MIB;

void wander(unsigned seed, long operations, struct thing held[64], int *count) {
    unsigned s = seed * 2654435761u + 1;
    for (long i = 0; i < operations; i++) {
        unsigned dice = next(&s) % 256;
        if (dice < 140 && *count < 64) {
            size_t bytes = wander_least + next(&s) % (wander_most - wander_least);
            *count += wander_take((int)(next(&s) % WANDER_KINDS), bytes, &held[*count]);
        } else if (dice == 255) {
            wander_graph(MIB + next(&s) % (64 * MIB));
        } else if (dice == 254) {
            EQUAL(GET(cuStreamSynchronize)(NULL), 0);
        } else if (dice == 253) {
            EQUAL(GET(cuMemPoolTrimTo)(own_pool(), 0), 0);
        } else if (dice == 252) {
            EQUAL(GET(cuDeviceGraphMemTrim)(0), 0);
        } else if (*count) {
            unsigned at = next(&s) % (unsigned)*count;
            wander_give(&held[at]);
            held[at] = held[--*count];
        }
    }
}
