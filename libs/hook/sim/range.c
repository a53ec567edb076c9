/* Address space of this process: who owns an address, and free addresses by power-of-two class, last freed first reused (as the real
 * driver does: a hook that is late to forget a freed pointer must be caught by this). */
#include "driver.h"

#include <search.h>
#include <stdlib.h>

#define ARENA UINT64_C(0x200000000000) /* where no host mapping lies */
#define ARENA_END UINT64_C(0x700000000000)
#define LOW UINT64_C(0x10000000) /* for the 32-bit ABI of before CUDA 3.2 */

static void *tree;
static struct {
    CUdeviceptr *base;
    size_t count, room;
} spare[2][64];
static CUdeviceptr next_address[2] = {ARENA, LOW};

static unsigned class_of(size_t size)
{
    unsigned c = 9; /* 512 bytes */
    while (c < 47 && (UINT64_C(1) << c) < size)
        c++;
    return c;
}

CUdeviceptr sim_va_take(size_t size, size_t align, bool low)
{
    unsigned c = class_of(size > align ? size : align);
    if (spare[low][c].count)
        return spare[low][c].base[--spare[low][c].count];
    uint64_t span = UINT64_C(1) << c;
    uint64_t to = span < SIM_GRANULE || align > SIM_GRANULE ? span : SIM_GRANULE;
    CUdeviceptr base = (next_address[low] + to - 1) & ~(to - 1);
    if (base + span > (low ? UINT64_C(0xf0000000) : ARENA_END))
        return 0;
    next_address[low] = base + span;
    return base;
}

/* Device addresses: those handed out, with a margin behind them, so that what is written beyond the end is told from host memory. */
bool sim_va_ours(CUdeviceptr p) { return (p >= ARENA && p < next_address[0] + (UINT64_C(1) << 40)) || (p >= LOW && p < UINT64_C(0xf0000000)) || p < 65536; }

void sim_va_give(CUdeviceptr base, size_t size)
{
    bool low = base < ARENA;
    unsigned c = class_of(size);
    if (spare[low][c].count == spare[low][c].room) {
        size_t room = spare[low][c].room ? 2 * spare[low][c].room : 64;
        CUdeviceptr *grown = realloc(spare[low][c].base, room * sizeof *grown);
        if (!grown)
            return; /* the addresses are lost, not the memory */
        spare[low][c].base = grown;
        spare[low][c].room = room;
    }
    spare[low][c].base[spare[low][c].count++] = base;
}

/* Ranges that overlap compare equal, so a one-byte key finds the range around it. */
static int order(const void *a, const void *b)
{
    const Range *x = a, *y = b;
    if (x->base + x->size <= y->base)
        return -1;
    return y->base + y->size <= x->base;
}

Range *sim_range_new(RangeKind kind, CUdeviceptr base, size_t size)
{
    Range *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->kind = kind;
    r->base = base;
    r->size = size ? size : 1;
    r->block = SIM_NONE;
    r->id = sim_next_id();
    Range **in = tsearch(r, &tree, order);
    if (!in || *in != r) {
        free(r);
        return NULL; /* overlaps another */
    }
    return r;
}

Range *sim_range_at(CUdeviceptr address)
{
    Range key = {.base = address, .size = 1};
    Range **found = tfind(&key, &tree, order);
    return found ? *found : NULL;
}

void sim_range_delete(Range *range)
{
    tdelete(range, &tree, order);
    free(range);
}

static struct {
    void (*visit)(Range *, void *);
    void *arg;
} walk;

static void step(const void *node, VISIT which, int depth)
{
    (void)depth;
    if (which == postorder || which == leaf)
        walk.visit(*(Range *const *)node, walk.arg);
}

void sim_ranges_walk(void (*visit)(Range *, void *), void *arg)
{
    walk.visit = visit; /* one walk at a time: the local lock is held */
    walk.arg = arg;
    twalk(tree, step);
}
