#include "pools.h"

#include <string.h>
#include <sys/mman.h>

#include "charge.h"
#include "lock.h"
#include "log.h"
#include "memory.h"
#include "relaxed.h"
#include "slots.h"
#include "start.h"

#define POOLS 128
#define NOWHERE 255u /* memory of the host, or of another process: not charged here */

/* What the pool holds is covered by `charged`, and by `ahead` for calls under way. While any is,
 * growth is left to it to charge, so that nobody else sees a charge that will be undone. */
struct ts_pool {
    CUmemoryPool handle; /* NULL: free entry, or graph memory */
    uint32_t card;
    uint32_t growing; /* calls under way */
    uint64_t charged;
    uint64_t ahead;
    uint32_t graph; /* 1: the graph memory of its card */
};

/* Mapped as they are needed, and kept: callers hold pointers to pools without our lock. */
struct chunk {
    struct ts_pool pool[POOLS];
    struct chunk *next;
};

static struct chunk first;
static struct ts_pool graphs[TESSERA_CARDS + 1];
static int have_graphs TS_HOT, have_pools TS_HOT;
static ts_lock guard;
static int loose TS_HOT; /* some pool may hold memory that nobody uses */

enum what { RESERVED, USED };

static uint64_t graph_reading(const struct ts_pool *pool, enum what what) {
    cuuint64_t value = 0;
    int ordinal = ts_cards[pool->card].ordinal;
    CUgraphMem_attribute attribute =
        what == RESERVED ? CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT : CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT;
    if (ordinal < 0 || !real.cuDeviceGetGraphMemAttribute ||
        real.cuDeviceGetGraphMemAttribute(ordinal, attribute, &value) != CUDA_SUCCESS)
        return pool->charged;
    return value;
}

static uint64_t reading(const struct ts_pool *pool, enum what what) {
    cuuint64_t value = 0;
    CUmemPool_attribute attribute =
        what == RESERVED ? CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT : CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    if (pool->graph)
        return graph_reading(pool, what);
    if (!real.cuMemPoolGetAttribute || real.cuMemPoolGetAttribute(pool->handle, attribute, &value) != CUDA_SUCCESS)
        return pool->charged;
    return value;
}

static enum tessera_kind kind_of(const struct ts_pool *pool) {
    return pool->graph ? TESSERA_GRAPH : TESSERA_POOL;
}

struct ts_card *ts_pool_card(const struct ts_pool *pool) {
    return pool && pool->card != NOWHERE ? &ts_cards[pool->card] : NULL;
}

uint64_t ts_pool_handle(const struct ts_pool *pool) {
    return (uint64_t)(uintptr_t)pool->handle;
}

static struct chunk *after(struct chunk *chunk) {
    return __atomic_load_n(&chunk->next, __ATOMIC_ACQUIRE);
}

static struct ts_pool *find(CUmemoryPool handle) {
    for (struct chunk *chunk = &first; chunk; chunk = after(chunk))
        for (int i = 0; i < POOLS; i++)
            if (chunk->pool[i].handle == handle)
                return &chunk->pool[i];
    return NULL;
}

/* With guard held: a free entry, in a chunk of its own if need be. */
static struct ts_pool *find_free(void) {
    struct ts_pool *spare = find(NULL);
    if (spare)
        return spare;
    struct chunk *fresh = mmap(NULL, sizeof *fresh, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) {
        ts_log_once(TS_LOG_ERROR, "no memory for one more pool: it is not limited");
        ts_gap(TESSERA_GAP_SYMBOL);
        return NULL;
    }
    fresh->next = first.next;
    __atomic_store_n(&first.next, fresh, __ATOMIC_RELEASE);
    return fresh->pool;
}

/* A pool that nobody told us about: a device's default pool, or one made before we looked. */
static uint32_t card_of_unknown(CUmemoryPool handle, const struct ts_card *current) {
    CUmemoryPool theirs;
    int devices = 0;
    if (real.cuDeviceGetCount && real.cuDeviceGetDefaultMemPool && real.cuDeviceGetCount(&devices) == CUDA_SUCCESS)
        for (int d = 0; d < devices; d++)
            if (real.cuDeviceGetDefaultMemPool(&theirs, d) == CUDA_SUCCESS && theirs == handle) {
                struct ts_card *card = ts_card_by_device(d);
                return card ? card->index : NOWHERE;
            }
    return current ? current->index : NOWHERE;
}

static struct ts_pool *enter(CUmemoryPool handle, uint32_t card, uint64_t charged) {
    struct ts_pool *pool = find(handle);
    if (!pool)
        pool = find_free();
    if (pool)
        *pool = (struct ts_pool){.handle = handle, .card = card, .charged = charged};
    have_pools = 1;
    return pool;
}

void ts_pool_remember(CUmemoryPool handle, struct ts_card *card) {
    ts_lock_take(&guard);
    enter(handle, card ? card->index : NOWHERE, 0);
    ts_lock_give(&guard);
}

struct ts_pool *ts_pool_of(CUmemoryPool handle, const struct ts_card *current) {
    ts_lock_take(&guard);
    struct ts_pool *pool = find(handle);
    ts_lock_give(&guard);
    if (!pool) {
        uint32_t card = card_of_unknown(handle, current);
        ts_lock_take(&guard);
        pool = find(handle);
        if (!pool)
            pool = enter(handle, card, 0);
        ts_lock_give(&guard);
    }
    return ts_pool_card(pool) ? pool : NULL;
}

struct ts_pool *ts_pool_of_graphs(struct ts_card *card) {
    return graphs[card->index].graph ? &graphs[card->index] : NULL;
}

/* With guard held. */
static void keep(struct ts_pool *pool, uint64_t held) {
    uint64_t covered = pool->charged + pool->ahead;
    if (held < pool->charged) {
        ts_uncharge(&ts_cards[pool->card], kind_of(pool), pool->charged - held);
        pool->charged = held;
    } else if (held > covered && !pool->growing) {
        ts_charge_anyway(&ts_cards[pool->card], kind_of(pool), held - covered);
        pool->charged = held - pool->ahead;
    }
}

static void settle(struct ts_pool *pool) {
    if (pool->card >= TESSERA_CARDS)
        return;
    uint64_t held = reading(pool, RESERVED);
    keep(pool, held);
    if (held > reading(pool, USED))
        loose = 1;
}

void ts_pool_settle(CUmemoryPool handle) {
    ts_lock_take(&guard);
    struct ts_pool *pool = handle ? find(handle) : NULL;
    if (pool)
        settle(pool);
    ts_lock_give(&guard);
}

void ts_pools_settle(void) {
    if (!ts_get(have_pools) && !ts_get(have_graphs)) /* no call has shown one yet */
        return;
    ts_lock_take(&guard);
    loose = 0;
    for (struct chunk *chunk = &first; have_pools && chunk; chunk = after(chunk))
        for (int i = 0; i < POOLS; i++)
            if (chunk->pool[i].handle)
                settle(&chunk->pool[i]);
    for (uint32_t i = 0; have_graphs && i < TESSERA_CARDS; i++)
        if (graphs[i].graph)
            settle(&graphs[i]);
    ts_lock_give(&guard);
}

void ts_pools_settle_if_loose(void) {
    if (ts_unlikely(__atomic_load_n(&loose, __ATOMIC_RELAXED)))
        ts_pools_settle();
}

void ts_pools_loosen(void) {
    __atomic_store_n(&loose, 1, __ATOMIC_RELAXED);
}

int ts_pool_take(struct ts_pool *pool, uint64_t bytes, uint64_t reused, uint64_t *ahead) {
    struct ts_card *card = &ts_cards[pool->card];
    ts_lock_take(&guard);
    settle(pool);
    uint64_t held = reading(pool, RESERVED), used = reading(pool, USED);
    pool->growing++;
    ts_lock_give(&guard);
    used -= reused < used ? reused : used;
    uint64_t idle = held > used ? held - used : 0;
    *ahead = bytes > idle ? bytes - idle : 0;
    int fits = ts_memory_ask(card, kind_of(pool), *ahead);
    ts_lock_take(&guard);
    if (fits)
        pool->ahead += *ahead;
    else if (pool->growing)
        pool->growing--;
    ts_lock_give(&guard);
    return fits;
}

uint64_t ts_pool_grown(struct ts_pool *pool, uint64_t ahead) {
    uint64_t over = 0;
    ts_lock_take(&guard);
    pool->ahead -= ahead < pool->ahead ? ahead : pool->ahead;
    pool->charged += ahead;
    uint64_t held = reading(pool, RESERVED), covered = pool->charged + pool->ahead;
    if (held > covered) {
        if (ts_charge(&ts_cards[pool->card], kind_of(pool), held - covered))
            pool->charged = held - pool->ahead;
        else
            over = held - covered;
    } else {
        keep(pool, held);
    }
    ts_lock_give(&guard);
    return over;
}

void ts_pool_finish(struct ts_pool *pool) {
    ts_lock_take(&guard);
    if (pool->growing)
        pool->growing--;
    settle(pool);
    ts_lock_give(&guard);
}

int ts_pool_trim(struct ts_pool *pool) {
    if (pool->graph)
        return real.cuDeviceGraphMemTrim && ts_cards[pool->card].ordinal >= 0 &&
               real.cuDeviceGraphMemTrim(ts_cards[pool->card].ordinal) == CUDA_SUCCESS;
    CUmemoryPool handle = pool->handle;
    return handle && real.cuMemPoolTrimTo && real.cuMemPoolTrimTo(handle, 0) == CUDA_SUCCESS;
}

/* Not those about to grow: what is idle there was counted on when their growth was charged. */
int ts_pools_give_back(struct ts_card *card) {
    uint64_t before = ts_charged(card);
    int any = 0;
    for (struct chunk *chunk = &first; chunk; chunk = after(chunk))
        for (int i = 0; i < POOLS; i++)
            if (chunk->pool[i].handle && chunk->pool[i].card == card->index && !chunk->pool[i].growing)
                any |= ts_pool_trim(&chunk->pool[i]);
    if (graphs[card->index].graph && !graphs[card->index].growing)
        any |= ts_pool_trim(&graphs[card->index]);
    if (any)
        ts_pools_settle();
    return ts_charged(card) < before;
}

struct ts_pool_memory ts_pool_leave(CUmemoryPool handle) {
    struct ts_pool_memory was = {0, NOWHERE, 0};
    ts_lock_take(&guard);
    struct ts_pool *pool = handle ? find(handle) : NULL;
    if (pool) {
        settle(pool);
        was = (struct ts_pool_memory){1, pool->card, pool->charged};
        pool->handle = NULL;
    }
    ts_lock_give(&guard);
    return was;
}

/* What is still allocated lives on after its pool, and stays charged until it is freed. */
void ts_pool_left(struct ts_pool_memory was, CUmemoryPool handle, CUresult r) {
    if (!was.known)
        return;
    if (r == CUDA_SUCCESS && was.card < TESSERA_CARDS) {
        uint64_t live = ts_ledger_adopt(TS_ASYNC, (uint64_t)(uintptr_t)handle);
        ts_recharge(&ts_cards[was.card], TESSERA_POOL, was.charged, live);
    } else if (r != CUDA_SUCCESS) {
        ts_lock_take(&guard);
        enter(handle, was.card, was.charged);
        ts_lock_give(&guard);
    }
}

void ts_pools_graph_memory(struct ts_card *card) {
    if (!card || graphs[card->index].graph)
        return;
    ts_lock_take(&guard);
    graphs[card->index] = (struct ts_pool){.card = card->index, .graph = 1};
    have_graphs = 1;
    ts_lock_give(&guard);
}

int ts_pools_have_graphs(void) {
    return __atomic_load_n(&have_graphs, __ATOMIC_RELAXED);
}

void ts_pools_reset(void) {
    memset(&first, 0, sizeof first); /* other chunks are the parent's, and lost here */
    memset(graphs, 0, sizeof graphs);
    have_graphs = have_pools = 0;
    guard.word = 0;
    loose = 0;
}
