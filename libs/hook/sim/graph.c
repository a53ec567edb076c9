/* Graphs as they are built: nodes, edges, clones, and an order to run them in. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

CUresult sim_graph_check(CUgraph graph)
{
    ENTER();
    return graph && graph->magic == SIM_GRAPH ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult node_check(CUgraphNode node)
{
    ENTER();
    return node && node->magic == SIM_NODE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    ENTER();
    if (!graph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph g = sim_object_new(SIM_GRAPH, sizeof *g);
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    g->id = sim_next_id();
    *graph = g;
    return CUDA_SUCCESS;
}

static void free_node(CUgraphNode node)
{
    if (node->child)
        cuGraphDestroy(node->child);
    free(node->deps);
    sim_object_free(node, sizeof *node);
}

CUresult cuGraphDestroy(CUgraph graph)
{
    CUresult r = sim_graph_check(graph);
    if (r)
        return r;
    for (CUgraphNode n = graph->first, next; n; n = next) {
        next = n->next;
        free_node(n);
    }
    sim_kept_drop(graph->kept);
    sim_object_free(graph, sizeof *graph);
    return CUDA_SUCCESS;
}

CUresult sim_node_new(CUgraphNode *node, CUgraph graph, CUgraphNodeType type, const CUgraphNode *deps, size_t count)
{
    CUresult r = sim_graph_check(graph);
    if (r)
        return r;
    if (!node || (count && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (node_check(deps[i]) || deps[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    CUgraphNode n = sim_object_new(SIM_NODE, sizeof *n);
    CUgraphNode *copy = malloc((count + 1) * sizeof *copy);
    if (!n || !copy) {
        free(copy);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (count)
        memcpy(copy, deps, count * sizeof *copy);
    n->type = type;
    n->id = sim_next_id();
    n->graph = graph;
    n->deps = copy;
    n->dep_count = count;
    if (graph->last)
        graph->last->next = n;
    else
        graph->first = n;
    graph->last = n;
    graph->count++;
    *node = n;
    return CUDA_SUCCESS;
}

/* Clones keep the order of nodes, so a clone's i-th node stands for the original's i-th. */
CUresult sim_graph_clone(CUgraph *clone, CUgraph original)
{
    CUresult r = sim_graph_check(original);
    if (r || (r = cuGraphCreate(clone, 0)))
        return r;
    CUgraphNode *map = malloc((original->count + 1) * sizeof *map);
    size_t at = 0;
    for (CUgraphNode n = original->first; map && n && !r; n = n->next, at++) {
        CUgraphNode copy;
        r = sim_node_new(&copy, *clone, n->type, NULL, 0);
        if (r)
            break;
        CUgraphNode *deps = malloc((n->dep_count + 1) * sizeof *deps);
        struct CUgraphNode_st fresh = *copy;
        *copy = *n;
        copy->id = fresh.id;
        copy->graph = *clone;
        copy->next = NULL;
        copy->deps = deps;
        free(fresh.deps);
        copy->child = NULL;
        if (n->child)
            r = sim_graph_clone(&copy->child, n->child);
        map[at] = copy;
        n->mark = at;
    }
    size_t i = 0;
    for (CUgraphNode n = original->first; map && n && !r; n = n->next, i++)
        for (size_t d = 0; d < n->dep_count && map[i]->deps; d++)
            map[i]->deps[d] = map[n->deps[d]->mark];
    free(map);
    if (!r)
        (*clone)->kept = sim_kept_copy(original->kept);
    return r;
}

CUresult cuGraphClone(CUgraph *clone, CUgraph original)
{
    NEED(clone);
    return sim_graph_clone(clone, original);
}

static bool visit(CUgraphNode node, uint64_t open, uint64_t done, CUgraphNode *ordered, size_t *at)
{
    if (node->mark == done)
        return true;
    if (node->mark == open)
        return false; /* a cycle */
    node->mark = open;
    for (size_t i = 0; i < node->dep_count; i++)
        if (!visit(node->deps[i], open, done, ordered, at))
            return false;
    node->mark = done;
    ordered[(*at)++] = node;
    return true;
}

CUresult sim_graph_order(CUgraph graph, CUgraphNode *ordered)
{
    uint64_t open = sim_next_id(), done = sim_next_id();
    size_t at = 0;
    for (CUgraphNode n = graph->first; n; n = n->next)
        if (!visit(n, open, done, ordered, &at))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    CUresult r = node_check(node);
    if (r)
        return r;
    CUgraph g = node->graph;
    CUgraphNode before = NULL;
    for (CUgraphNode n = g->first; n; n = n->next) {
        if (n->next == node)
            before = n;
        for (size_t i = 0; i < n->dep_count;)
            if (n->deps[i] == node)
                n->deps[i] = n->deps[--n->dep_count];
            else
                i++;
    }
    if (before)
        before->next = node->next;
    else
        g->first = node->next;
    if (g->last == node)
        g->last = before;
    g->count--;
    free_node(node);
    return CUDA_SUCCESS;
}

static CUresult list(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots)
{
    size_t n = 0, room;
    CUresult r = sim_graph_check(graph);
    if (r)
        return r;
    NEED(count);
    room = nodes ? *count : SIZE_MAX;
    for (CUgraphNode at = graph->first; at; at = at->next) {
        if (roots && at->dep_count)
            continue;
        if (nodes && n < room)
            nodes[n] = at;
        n++;
    }
    for (size_t i = n; nodes && i < room; i++)
        nodes[i] = NULL;
    *count = n < room ? n : room;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) { return list(graph, nodes, count, false); }
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) { return list(graph, nodes, count, true); }

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    size_t n = 0;
    CUresult r = sim_graph_check(graph);
    if (r)
        return r;
    if (!count || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    size_t room = from ? *count : SIZE_MAX;
    for (CUgraphNode at = graph->first; at; at = at->next)
        for (size_t i = 0; i < at->dep_count; i++, n++)
            if (from && n < room) {
                from[n] = at->deps[i];
                to[n] = at;
            }
    *count = n < room ? n : room;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count)
{
    CUresult r = cuGraphGetEdges(graph, from, to, count);
    if (!r && edges && from)
        memset(edges, 0, *count * sizeof *edges);
    return r;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    CUresult r = sim_graph_check(graph);
    for (size_t i = 0; i < count && !r; i++) {
        if (!from || !to || node_check(from[i]) || node_check(to[i]) || from[i]->graph != graph || to[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
        CUgraphNode *grown = realloc(to[i]->deps, (to[i]->dep_count + 1) * sizeof *grown);
        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        grown[to[i]->dep_count++] = from[i];
        to[i]->deps = grown;
    }
    return r;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edges, size_t count)
{
    (void)edges;
    return cuGraphAddDependencies(graph, from, to, count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *count)
{
    CUresult r = node_check(node);
    if (r)
        return r;
    NEED(count);
    size_t room = deps ? *count : SIZE_MAX, n = node->dep_count < room ? node->dep_count : room;
    if (deps && n)
        memcpy(deps, node->deps, n * sizeof *deps);
    *count = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *deps, CUgraphEdgeData *edges, size_t *count)
{
    CUresult r = cuGraphNodeGetDependencies(node, deps, count);
    if (!r && edges && deps)
        memset(edges, 0, *count * sizeof *edges);
    return r;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    CUresult r = node_check(node);
    if (r)
        return r;
    NEED(type);
    *type = node->type;
    return CUDA_SUCCESS;
}
