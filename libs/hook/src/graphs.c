/* Graphs: memory that a graph allocates is charged before it is launched. A graph's launch is
 * limited as a kernel's is: launch.c. */
#include "graphs.h"

#include <sys/mman.h>

#include "charge.h"
#include "guess.h"
#include "ledger.h"
#include "memory.h"
#include "points.h"
#include "pools.h"
#include "relaxed.h"
#include "start.h"

#define LIVE 4096 /* allocations of one graph that are followed to their free; more count for ever */
#define DEEPEST 16
#define PIECE (UINT64_C(2) << 20) /* graph memory grows in pieces of this */

struct tally {
    struct {
        CUdeviceptr at;
        uint64_t bytes;
        struct ts_card *card;
    } live[LIVE];
    size_t count;
    uint64_t now[TESSERA_CARDS + 1], peak[TESSERA_CARDS + 1]; /* the last card gives nothing */
};

static void allocates(struct tally *tally, CUgraphNode node) {
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    if (!real.cuGraphMemAllocNodeGetParams || real.cuGraphMemAllocNodeGetParams(node, &params) != CUDA_SUCCESS ||
        params.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return;
    struct ts_card *card = ts_card_by_device(params.poolProps.location.id);
    if (!card)
        return;
    uint64_t bytes = ts_memory_round(params.bytesize), *now = &tally->now[card->index];
    *now += bytes;
    if (*now > tally->peak[card->index])
        tally->peak[card->index] = *now;
    if (tally->count < LIVE) {
        tally->live[tally->count].at = params.dptr;
        tally->live[tally->count].bytes = bytes;
        tally->live[tally->count++].card = card;
    }
}

static void frees(struct tally *tally, CUgraphNode node) {
    CUdeviceptr at;
    if (!real.cuGraphMemFreeNodeGetParams || real.cuGraphMemFreeNodeGetParams(node, &at) != CUDA_SUCCESS)
        return;
    for (size_t i = tally->count; i-- > 0;)
        if (tally->live[i].at == at) {
            tally->now[tally->live[i].card->index] -= tally->live[i].bytes;
            tally->live[i] = tally->live[--tally->count];
            return;
        }
}

static void walk(struct tally *tally, CUgraph graph, int depth) {
    size_t count = 0;
    CUgraph inner;
    if (depth > DEEPEST || real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || !count)
        return;
    size_t room = count * sizeof(CUgraphNode);
    CUgraphNode *nodes = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (nodes == MAP_FAILED)
        return;
    if (real.cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        if (real.cuGraphNodeGetType(nodes[i], &type) != CUDA_SUCCESS)
            continue;
        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            allocates(tally, nodes[i]);
        else if (type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            frees(tally, nodes[i]);
        else if (type == CU_GRAPH_NODE_TYPE_GRAPH && real.cuGraphChildGraphNodeGetGraph &&
                 real.cuGraphChildGraphNodeGetGraph(nodes[i], &inner) == CUDA_SUCCESS)
            walk(tally, inner, depth + 1);
    }
    munmap(nodes, room);
}

/* User addresses leave the top bits free for the card. */
static uint64_t key_of(CUgraphExec exec, uint32_t card) {
    return (uint64_t)(uintptr_t)exec ^ ((uint64_t)card << 58);
}

/* What it will hold at its peak, if its nodes run in the order in which they were added: exact for a
 * captured stream. Where branches allocate side by side, the rest is charged after the launch. */
static void learn(CUgraphExec exec, CUgraph graph, unsigned long long flags) {
    if (!ts_pools_have_graphs() || !real.cuGraphGetNodes || !real.cuGraphNodeGetType)
        return;
    struct tally *tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (tally == MAP_FAILED)
        return;
    walk(tally, graph, 0);
    for (uint32_t i = 0; i < TESSERA_CARDS; i++)
        if (tally->peak[i]) {
            struct ts_holding need = {.key = key_of(exec, i), .bytes = (tally->peak[i] + PIECE - 1) / PIECE * PIECE, .thing = TS_GRAPH_EXEC,
                                      .card = (uint8_t)i,
                                      .references = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0};
            ts_ledger_put(&need);
        }
    munmap(tally, sizeof *tally);
}

CUresult ts_graph_run(CUgraphExec exec, CUstream stream, CUresult (*run)(CUgraphExec, CUstream)) {
    struct ts_pool *pool[TESSERA_CARDS] = {NULL};
    uint64_t ahead[TESSERA_CARDS];
    CUresult r = CUDA_SUCCESS;
    for (uint32_t i = 0; i < ts_card_count() && r == CUDA_SUCCESS; i++) {
        struct ts_holding need;
        struct ts_pool *graphs = ts_pool_of_graphs(&ts_cards[i]);
        if (!graphs || !ts_ledger_look(TS_GRAPH_EXEC, key_of(exec, i), &need))
            continue;
        if (ts_pool_take(graphs, need.bytes, need.references ? need.bytes : 0, &ahead[i]))
            pool[i] = graphs;
        else
            r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    ts_point("graph: charged");
    if (r == CUDA_SUCCESS)
        r = run(exec, stream);
    ts_point("graph: driver");
    for (uint32_t i = 0; i < TESSERA_CARDS; i++)
        if (pool[i]) {
            ts_pool_grown(pool[i], ahead[i]);
            ts_pool_finish(pool[i]);
        }
    return r;
}

#define INSTANTIATE(symbol, params, args, flags)  \
    CUresult symbol params {                      \
        TS_ENTER(symbol, args);                   \
        CUresult r = real.symbol args;            \
        if (r == CUDA_SUCCESS)                    \
            learn(*exec, graph, flags);           \
        return r;                                 \
    }

INSTANTIATE(cuGraphInstantiate, (CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *text, size_t size),
            (exec, graph, error, text, size), 0)
INSTANTIATE(cuGraphInstantiate_v2, (CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *text, size_t size),
            (exec, graph, error, text, size), 0)
INSTANTIATE(cuGraphInstantiateWithFlags, (CUgraphExec *exec, CUgraph graph, unsigned long long flags),
            (exec, graph, flags), flags)

/* With the flag UPLOAD this is an upload too, and reserves at once: it is charged afterwards. */
#define WITH_PARAMS(suffix)                                                                                      \
    CUresult cuGraphInstantiateWithParams##suffix(CUgraphExec *exec, CUgraph graph,                              \
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS *params) {                       \
        TS_ENTER(cuGraphInstantiateWithParams##suffix, (exec, graph, params));                                   \
        CUresult r = real.cuGraphInstantiateWithParams##suffix(exec, graph, params);                             \
        if (r == CUDA_SUCCESS)                                                                                   \
            learn(*exec, graph, params->flags);                                                                  \
        if (r == CUDA_SUCCESS && ts_pools_have_graphs())                                                         \
            ts_pools_settle();                                                                                   \
        return r;                                                                                                \
    }                                                                                                            \
    CUresult cuGraphUpload##suffix(CUgraphExec exec, CUstream stream) {                                          \
        TS_ENTER(cuGraphUpload##suffix, (exec, stream));                                                         \
        return ts_pools_have_graphs() ? ts_graph_run(exec, stream, real.cuGraphUpload##suffix)                   \
                                      : real.cuGraphUpload##suffix(exec, stream);                                \
    }
WITH_PARAMS()
WITH_PARAMS(_ptsz)

/* The handle may come back as another graph. */
CUresult cuGraphExecDestroy(CUgraphExec exec) {
    TS_ENTER(cuGraphExecDestroy, (exec));
    struct ts_holding need;
    for (uint32_t i = 0; ts_pools_have_graphs() && i < ts_card_count(); i++)
        ts_ledger_take(TS_GRAPH_EXEC, key_of(exec, i), &need);
    CUresult r = real.cuGraphExecDestroy(exec);
    if (r == CUDA_SUCCESS)
        ts_guess_forget(ts_guess_graph(exec));
    return r;
}

/* A node's memory is taken when the graph runs; one that could never fit is refused here. */
static int refuse(const CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    if (!params || params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return 0;
    struct ts_card *card = ts_card_by_device(params->poolProps.location.id);
    if (!card)
        return 0;
    ts_tick();
    if (!ts_get(card->granted) || (ts_get(card->limit_bytes) && params->bytesize > ts_get(card->limit_bytes))) {
        ts_charge_denied(card, params->bytesize);
        return 1;
    }
    ts_pools_graph_memory(card);
    return 0;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    TS_ENTER(cuGraphAddMemAllocNode, (node, graph, deps, count, params));
    if (refuse(params))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return real.cuGraphAddMemAllocNode(node, graph, deps, count, params);
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                        CUgraphNodeParams *params) {
    TS_ENTER(cuGraphAddNode, (node, graph, deps, count, params));
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && refuse(&params->alloc))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return real.cuGraphAddNode(node, graph, deps, count, params);
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                           size_t count, CUgraphNodeParams *params) {
    TS_ENTER(cuGraphAddNode_v2, (node, graph, deps, edges, count, params));
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && refuse(&params->alloc))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return real.cuGraphAddNode_v2(node, graph, deps, edges, count, params);
}

CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                           size_t count, CUgraphNodeParams *params) {
    TS_ENTER(cuGraphAddNode_v3, (node, graph, deps, edges, count, params));
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && refuse(&params->alloc))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return real.cuGraphAddNode_v3(node, graph, deps, edges, count, params);
}
