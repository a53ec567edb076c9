/* User objects: things of the program that graphs keep alive. A graph, its copies and what is instantiated from it hold references; the
 * last one that goes calls the object's destructor (here: in the caller, at once). */
#include "graph.h"

#include <stdlib.h>

enum { SIM_USER_OBJECT = 0x55534f42 };

struct CUuserObject_st {
    uint32_t magic;
    unsigned references;
    CUhostFn destroy;
    void *data;
};

struct Kept {
    CUuserObject object;
    unsigned count;
    struct Kept *next;
};

static bool alive(CUuserObject o) { return o && o->magic == SIM_USER_OBJECT && __atomic_load_n(&o->references, __ATOMIC_ACQUIRE); }

CUresult cuUserObjectCreate(CUuserObject *object, void *data, CUhostFn destroy, unsigned int references, unsigned int flags)
{
    ENTER();
    if (!object || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    CUuserObject o = sim_object_new(SIM_USER_OBJECT, sizeof *o);
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->references = references;
    o->destroy = destroy;
    o->data = data;
    *object = o;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    ENTER();
    if (!count || !alive(object))
        return CUDA_ERROR_INVALID_VALUE;
    __atomic_add_fetch(&object->references, count, __ATOMIC_ACQ_REL);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    ENTER();
    if (!count || !alive(object) || count > object->references)
        return CUDA_ERROR_INVALID_VALUE;
    if (__atomic_sub_fetch(&object->references, count, __ATOMIC_ACQ_REL) == 0) {
        object->destroy(object->data);
        sim_object_free(object, sizeof *object);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    CUresult r = sim_graph_check(graph);
    if (r)
        return r;
    if (!count || !alive(object) || (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE))
        return CUDA_ERROR_INVALID_VALUE;
    Kept *kept = malloc(sizeof *kept);
    if (!kept)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
        cuUserObjectRetain(object, count);
    *kept = (Kept){object, count, graph->kept};
    graph->kept = kept;
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    CUresult r = sim_graph_check(graph);
    if (r)
        return r;
    for (Kept **at = &graph->kept; *at && count; at = &(*at)->next)
        if ((*at)->object == object && (*at)->count >= count) {
            Kept *kept = *at;
            kept->count -= count;
            if (!kept->count) {
                *at = kept->next;
                free(kept);
            }
            return cuUserObjectRelease(object, count);
        }
    return CUDA_ERROR_INVALID_VALUE;
}

Kept *sim_kept_copy(const Kept *list)
{
    Kept *copy = NULL;
    for (; list; list = list->next) {
        Kept *kept = malloc(sizeof *kept);
        if (!kept)
            break;
        cuUserObjectRetain(list->object, list->count);
        *kept = (Kept){list->object, list->count, copy};
        copy = kept;
    }
    return copy;
}

void sim_kept_drop(Kept *list)
{
    while (list) {
        Kept *next = list->next;
        cuUserObjectRelease(list->object, list->count);
        free(list);
        list = next;
    }
}
