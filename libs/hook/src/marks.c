#include "marks.h"

#include <string.h>

#include "clock.h"

#define REANCHOR_NS ((int64_t)TS_S)

struct ts_context ts_contexts[TS_CONTEXTS];

void ts_mark_release(struct ts_mark *mark) {
    if (mark && mark->references)
        mark->references--;
}

struct ts_context *ts_context_of(CUcontext handle, struct ts_card *card) {
    struct ts_context *spare = NULL;
    for (int i = 0; i < TS_CONTEXTS; i++) {
        if (ts_contexts[i].handle == handle)
            return &ts_contexts[i];
        if (!ts_contexts[i].handle && !spare)
            spare = &ts_contexts[i];
    }
    if (spare) {
        memset(spare, 0, sizeof *spare);
        spare->handle = handle;
        spare->card = card;
        spare->empty_ns = -1;
    }
    return spare;
}

struct ts_mark *ts_mark_record(struct ts_context *context, CUstream stream) {
    for (int i = 0; i < TS_MARKS; i++) {
        struct ts_mark *mark = &context->mark[i];
        if (mark->references)
            continue;
        if (!mark->event && real.cuEventCreate(&mark->event, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
            return NULL;
        mark->recorded = ts_now();
        if (real.cuEventRecord(mark->event, stream) != CUDA_SUCCESS)
            return NULL;
        mark->references = 1;
        return mark;
    }
    return NULL;
}

/* Time of a mark on the GPU's line; the anchor moves along, for a float has only 24 bits. */
int ts_mark_place(struct ts_context *context, struct ts_mark *mark, int64_t *at) {
    float ms = 0;
    if (!context->anchor) {
        context->anchor = mark;
        mark->references++;
        context->anchor_ns = 0;
    }
    if (context->anchor != mark && real.cuEventElapsedTime(&ms, context->anchor->event, mark->event) != CUDA_SUCCESS)
        return 0;
    *at = context->anchor_ns + (int64_t)((double)ms * 1e6);
    if (*at - context->anchor_ns > REANCHOR_NS) {
        ts_mark_release(context->anchor);
        context->anchor = mark;
        mark->references++;
        context->anchor_ns = *at;
    }
    /* It cannot have happened before it was asked for; on an idle stream it happens at once. */
    int64_t least = (int64_t)mark->recorded - *at;
    if (!context->knows_ahead || least > context->ahead)
        context->ahead = least;
    context->knows_ahead = 1;
    return 1;
}

int ts_measurable(CUstream stream, CUcontext *current) {
    if (!real.cuEventCreate || !real.cuEventRecord || !real.cuEventQuery || !real.cuEventElapsedTime)
        return 0;
    if (real.cuCtxGetCurrent(current) != CUDA_SUCCESS || !*current)
        return 0;
    CUcontext owner = *current;
    if ((uintptr_t)stream > 2 && real.cuStreamGetCtx && real.cuStreamGetCtx(stream, &owner) != CUDA_SUCCESS)
        return 0;
    return owner == *current;
}
