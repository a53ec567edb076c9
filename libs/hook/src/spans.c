#include "spans.h"

#include <string.h>

#include "bucket.h"
#include "clock.h"
#include "lock.h"
#include "log.h"
#include "pools.h"
#include "slots.h"
#include "start.h"

#define CONTEXTS 16
#define MARKS 192
#define SPANS 96
#define CALIBRATIONS 4
#define REANCHOR_NS ((int64_t)TS_S)

struct ts_mark {
    CUevent event;
    uint32_t references; /* 0: free */
    uint64_t recorded;   /* by our clock, when the record was asked for */
};

struct span {
    struct ts_mark *from, *to;
    struct ts_guess *guess; /* NULL: several launches between two marks */
    uint64_t predicted;
};

struct ts_context {
    CUcontext handle; /* NULL: free entry */
    struct ts_card *card;
    struct ts_mark mark[MARKS];
    struct span span[SPANS];
    uint32_t spans;
    struct ts_mark *anchor; /* its event's time is known: */
    int64_t anchor_ns;      /* on the GPU's line of time, whose zero is the first anchor */
    int64_t ahead;          /* our clock minus that line; at least, so far */
    int knows_ahead;
    int64_t empty_ns; /* what two records back to back show */
    int calibrations;
    int broken; /* events fail here: measure nothing more */
};

int ts_captures;
static struct ts_context contexts[CONTEXTS];
static ts_lock guard;

static void release(struct ts_mark *mark) {
    if (mark && mark->references)
        mark->references--;
}

void ts_line_forget(CUstream stream) {
    struct ts_line *line = ts_line_of(stream);
    ts_lock_take(&guard);
    release(line->open);
    line->open = NULL;
    line->context = NULL;
    ts_lock_give(&guard);
}

static struct ts_context *context_of(CUcontext handle, struct ts_card *card) {
    struct ts_context *spare = NULL;
    for (int i = 0; i < CONTEXTS; i++) {
        if (contexts[i].handle == handle)
            return &contexts[i];
        if (!contexts[i].handle && !spare)
            spare = &contexts[i];
    }
    if (spare) {
        memset(spare, 0, sizeof *spare);
        spare->handle = handle;
        spare->card = card;
        spare->empty_ns = -1;
    }
    return spare;
}

static struct ts_mark *record(struct ts_context *context, CUstream stream) {
    for (int i = 0; i < MARKS; i++) {
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

static void enqueue(struct ts_context *context, struct span span) {
    if (context->spans == SPANS) {
        release(span.from);
        release(span.to);
        return;
    }
    context->span[context->spans++] = span;
    if (span.guess)
        __atomic_add_fetch(&span.guess->inflight, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&context->card->mine->outstanding_ns, (int64_t)span.predicted, __ATOMIC_RELAXED);
}

/* Time of a mark on the GPU's line; the anchor moves along, for a float has only 24 bits. */
static int place(struct ts_context *context, struct ts_mark *mark, int64_t *at) {
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
        release(context->anchor);
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

/* What a finished span cost: the time between its marks, but several launches no more than was
 * predicted for them (the stream may have stood idle in between), and overlaps only once. */
static void settle(struct ts_context *context, const struct span *span) {
    struct ts_card *card = context->card;
    float ms = 0;
    int64_t start = 0, end = 0;
    __atomic_sub_fetch(&card->mine->outstanding_ns, (int64_t)span->predicted, __ATOMIC_RELAXED);
    if (span->guess)
        __atomic_sub_fetch(&span->guess->inflight, 1, __ATOMIC_RELAXED);
    if (real.cuEventElapsedTime(&ms, span->from->event, span->to->event) != CUDA_SUCCESS ||
        !place(context, span->from, &start) || !place(context, span->to, &end)) {
        context->broken = 1;
        return;
    }
    int64_t took = (int64_t)((double)ms * 1e6);
    if (!span->guess && !span->predicted) { /* a calibration: nothing ran between the two */
        if (context->empty_ns < 0 || took < context->empty_ns)
            context->empty_ns = took;
        return;
    }
    if (span->guess && context->empty_ns > 0)
        took -= context->empty_ns < took / 2 ? context->empty_ns : took / 2;
    took = took > 0 ? took : 0;
    uint64_t want = (uint64_t)took;
    if (span->guess)
        ts_guess_learn(span->guess, (uint64_t)took);
    else if (want > span->predicted)
        want = span->predicted;
    int64_t host = end + context->ahead;
    uint64_t taken = host > took ? ts_bins_take(card->shared->bin, (uint64_t)(host - took), (uint64_t)host, want) : want;
    int64_t more = (int64_t)taken - (int64_t)span->predicted;
    ts_account(card, more);
    if (card->rate_permille < 1000) {
        int64_t gained = (int64_t)ts_gained(card, (uint64_t)(more < 0 ? -more : more));
        ts_bucket_debit(card->shared, more < 0 ? -gained : gained);
    }
}

static void drop_span(struct ts_context *context, uint32_t i) {
    release(context->span[i].from);
    release(context->span[i].to);
    memmove(&context->span[i], &context->span[i + 1], (context->spans - i - 1) * sizeof context->span[0]);
    context->spans--;
}

static void poll_context(struct ts_context *context) {
    int waiting = 0;
    for (uint32_t i = 0; i < context->spans && waiting < 8;) {
        CUresult r = real.cuEventQuery(context->span[i].to->event);
        if (r == CUDA_ERROR_NOT_READY) {
            waiting++;
            i++;
            continue;
        }
        if (r == CUDA_SUCCESS && !context->broken) {
            settle(context, &context->span[i]);
        } else {
            context->broken = 1; /* the context has failed; the application will notice */
            __atomic_sub_fetch(&context->card->mine->outstanding_ns, (int64_t)context->span[i].predicted,
                               __ATOMIC_RELAXED);
        }
        drop_span(context, i);
    }
}

/* Our calls must not disturb a capture that any thread has going. */
static CUstreamCaptureMode relax(CUstreamCaptureMode mode) {
    if (real.cuThreadExchangeStreamCaptureMode)
        real.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void ts_spans_poll(void) {
    CUcontext current = NULL;
    if (!real.cuEventQuery || real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !ts_try_lock(&guard))
        return;
    CUstreamCaptureMode was = relax(CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i < CONTEXTS; i++)
        if (contexts[i].handle && contexts[i].handle == current)
            poll_context(&contexts[i]);
    relax(was);
    ts_lock_give(&guard);
}

static int measurable(CUstream stream, CUcontext *current) {
    if (!real.cuEventCreate || !real.cuEventRecord || !real.cuEventQuery || !real.cuEventElapsedTime)
        return 0;
    if (real.cuCtxGetCurrent(current) != CUDA_SUCCESS || !*current)
        return 0;
    CUcontext owner = *current;
    if ((uintptr_t)stream > 2 && real.cuStreamGetCtx && real.cuStreamGetCtx(stream, &owner) != CUDA_SUCCESS)
        return 0;
    return owner == *current;
}

static void calibrate(struct ts_context *context, CUstream stream) {
    if (context->calibrations >= CALIBRATIONS)
        return;
    context->calibrations++;
    struct ts_mark *a = record(context, stream), *b = a ? record(context, stream) : NULL;
    if (b)
        enqueue(context, (struct span){.from = a, .to = b, .guess = NULL, .predicted = 0});
    else
        release(a);
}

void ts_probe_begin(struct ts_probe *probe, struct ts_card *card, CUstream stream, struct ts_line *line) {
    CUcontext current = NULL;
    probe->context = NULL;
    CUstreamCaptureMode was = relax(CU_STREAM_CAPTURE_MODE_RELAXED);
    if (measurable(stream, &current) &&
        !(__atomic_load_n(&ts_captures, __ATOMIC_RELAXED) && ts_pools_capturing(stream))) {
        ts_lock_take(&guard);
        struct ts_context *context = context_of(current, card);
        if (context && !context->broken) {
            poll_context(context);
            calibrate(context, stream);
            probe->before = record(context, stream);
            probe->context = probe->before ? context : NULL;
        }
        if (context && context->broken)
            ts_gap(TESSERA_GAP_EVENTS);
        if (probe->context && line->open) {
            uint64_t sum = __atomic_exchange_n(&line->sum_ns, 0, __ATOMIC_RELAXED);
            if (sum && line->context == context) {
                probe->before->references++;
                enqueue(context, (struct span){.from = line->open, .to = probe->before, .predicted = sum});
            } else {
                release(line->open);
            }
            line->open = NULL;
        }
        ts_lock_give(&guard);
    }
    relax(was);
}

void ts_probe_end(struct ts_probe *probe, struct ts_card *card, CUstream stream, struct ts_line *line,
                  struct ts_guess *guess, uint64_t predicted, CUresult result) {
    struct ts_context *context = probe->context;
    (void)card;
    if (!context)
        return;
    CUstreamCaptureMode was = relax(CU_STREAM_CAPTURE_MODE_RELAXED);
    ts_lock_take(&guard);
    struct ts_mark *after = result == CUDA_SUCCESS && context->handle ? record(context, stream) : NULL;
    if (after) {
        guess->since = 0;
        after->references++; /* the line's own */
        enqueue(context, (struct span){.from = probe->before, .to = after, .guess = guess, .predicted = predicted});
        release(line->open);
        line->open = after;
        line->context = context;
        __atomic_store_n(&line->sum_ns, 0, __ATOMIC_RELAXED);
    } else {
        release(probe->before);
    }
    ts_lock_give(&guard);
    relax(was);
}

/* The driver destroys the events with their context. */
void ts_spans_leave(CUcontext handle) {
    ts_lock_take(&guard);
    for (int i = 0; i < CONTEXTS; i++) {
        struct ts_context *context = &contexts[i];
        if (!handle || context->handle != handle)
            continue;
        for (uint32_t s = 0; s < context->spans; s++)
            __atomic_sub_fetch(&context->card->mine->outstanding_ns, (int64_t)context->span[s].predicted,
                               __ATOMIC_RELAXED);
        ts_lines_leave(context);
        memset(context, 0, sizeof *context);
    }
    ts_lock_give(&guard);
}

void ts_spans_reset(void) {
    memset(contexts, 0, sizeof contexts);
    ts_lines_reset();
    ts_captures = 0;
    guard.word = 0;
    ts_guess_reset();
}
