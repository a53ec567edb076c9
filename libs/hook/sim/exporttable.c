/* cuGetExportTable: the tables that the runtime library asks for, with entries that do nothing. The integrity check is not imitated,
 * so the runtime library stops there with error 103; resolving its symbols works. */
#include "driver.h"

#include <string.h>

static CUresult primary_of(CUcontext *ctx, CUdevice dev) { return cuDevicePrimaryCtxRetain(ctx, dev); }
static CUresult nothing(void) { return CUDA_SUCCESS; }

typedef void (*Slot)(void);
#define N ((Slot)nothing)
static const struct {
    size_t bytes; /* a table begins with its size */
    Slot slot[31];
} runtime = {sizeof runtime, {N, (Slot)primary_of, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N}},
  other = {sizeof other, {N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N}};

static const struct {
    unsigned char id[16];
    const void *table;
} tables[] = {
    {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9}, &runtime},
    {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66}, &other}, /* runtime callbacks */
    {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc}, &other}, /* tools, thread-local */
    {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93}, &other}, /* context-local storage */
    {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e}, &other},
    {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2}, &other}, /* integrity: not imitated */
};

CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (memcmp(tables[i].id, id->bytes, 16) == 0)
            *table = tables[i].table;
    return *table ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
