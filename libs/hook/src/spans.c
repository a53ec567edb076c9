#include "spans.h"

#include <string.h>

#include "bucket.h"
#include "capture.h"
#include "clock.h"
#include "lock.h"
#include "log.h"
#include "marks.h"
#include "measured.h"
#include "relaxed.h"
#include "slots.h"
#include "start.h"
#include "usage_map.h"

#define CALIBRATIONS 4
#define TS_MOST_SUM_NS (1000 * TS_S) /* threads that raced on one stream */

static ts_lock guard;

void ts_line_forget(CUstream stream) {
    struct ts_line *line = ts_line_of(stream);
    ts_lock_take(&guard);
    ts_mark_release(line->open);
    line->open = NULL;
    line->context = NULL;
    ts_lock_give(&guard);
}

static void enqueue(struct ts_context *context, struct ts_span span) {
    if (context->spans == TS_SPANS) {
        ts_mark_release(span.from);
        ts_mark_release(span.to);
        return;
    }
    context->span[context->spans++] = span;
    if (span.guess)
        __atomic_add_fetch(&span.guess->inflight, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&context->card->mine->outstanding_ns, (int64_t)span.predicted, __ATOMIC_RELAXED);
}

/* For the agent: how long kernels take. */
static void note_time(const struct ts_card *card, uint64_t ns, uint32_t launches) {
    uint64_t steps = ns >> TESSERA_TIMES_SHIFT;
    uint32_t i = steps ? 64u - (uint32_t)__builtin_clzll(steps) : 0;
    if (card->index < TESSERA_CARDS)
        __atomic_add_fetch(&ts_usage()->kernel_times[card->index][i < TESSERA_TIMES ? i : TESSERA_TIMES - 1], launches,
                           __ATOMIC_RELAXED);
}

/* What a finished span cost: the time between its marks, but several launches no more than was
 * predicted for them (the stream may have stood idle in between), and overlaps only once. */
static void settle(struct ts_context *context, const struct ts_span *span) {
    struct ts_card *card = context->card;
    float ms = 0;
    int64_t start = 0, end = 0;
    __atomic_sub_fetch(&card->mine->outstanding_ns, (int64_t)span->predicted, __ATOMIC_RELAXED);
    if (span->guess)
        ts_guess_landed(span->guess);
    if (real.cuEventElapsedTime(&ms, span->from->event, span->to->event) != CUDA_SUCCESS ||
        !ts_mark_place(context, span->from, &start) || !ts_mark_place(context, span->to, &end)) {
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
    if (span->guess) {
        int others = ts_measured_of_late(card);
        ts_guess_learn(span->guess, want, others);
        if (want > __atomic_load_n(&card->shared->longest_ns, __ATOMIC_RELAXED))
            __atomic_store_n(&card->shared->longest_ns, want, __ATOMIC_RELAXED);
        if (others && span->predicted && span->predicted < TS_LONG_NS && want > 2 * span->predicted)
            want = 2 * span->predicted; /* the rest was theirs, most likely; the agent will tell */
        note_time(card, want, span->stands_for);
    } else if (want > span->predicted) {
        want = span->predicted;
    }
    int64_t host = end + context->ahead;
    uint64_t taken = host > took ? ts_bins_take(card->shared->bin, (uint64_t)(host - took), (uint64_t)host, want) : want;
    int64_t more = (int64_t)taken - (int64_t)span->predicted;
    ts_account(card, more);
    if (ts_get(card->rate_permille) < 1000) {
        int64_t gained = (int64_t)ts_gained(card, (uint64_t)(more < 0 ? -more : more));
        ts_bucket_debit(card->shared, more < 0 ? -gained : gained);
    }
}

/* Nobody will say what it cost: what was predicted stands. */
static void unsettled(struct ts_context *context, const struct ts_span *span) {
    __atomic_sub_fetch(&context->card->mine->outstanding_ns, (int64_t)span->predicted, __ATOMIC_RELAXED);
    if (span->guess)
        ts_guess_landed(span->guess);
}

static void drop_span(struct ts_context *context, uint32_t i) {
    ts_mark_release(context->span[i].from);
    ts_mark_release(context->span[i].to);
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
            if (r != CUDA_ERROR_CAPTURED_EVENT) /* another thread began a capture just before we recorded */
                context->broken = 1;            /* the context has failed; the application will notice */
            unsettled(context, &context->span[i]);
        }
        drop_span(context, i);
    }
}

void ts_spans_poll(void) {
    CUcontext current = NULL;
    if (!real.cuEventQuery || real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !ts_try_lock(&guard))
        return;
    CUstreamCaptureMode was = ts_capture_relax(CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i < TS_CONTEXTS; i++)
        if (ts_contexts[i].handle && ts_contexts[i].handle == current)
            poll_context(&ts_contexts[i]);
    ts_capture_relax(was);
    ts_lock_give(&guard);
}

static void calibrate(struct ts_context *context, CUstream stream) {
    if (context->calibrations >= CALIBRATIONS)
        return;
    context->calibrations++;
    struct ts_mark *a = ts_mark_record(context, stream), *b = a ? ts_mark_record(context, stream) : NULL;
    if (b)
        enqueue(context, (struct ts_span){.from = a, .to = b, .guess = NULL, .predicted = 0});
    else
        ts_mark_release(a);
}

void ts_probe_begin(struct ts_probe *probe, struct ts_card *card, CUstream stream, struct ts_line *line,
                    uint64_t predicted) {
    CUcontext current = NULL;
    probe->context = NULL;
    CUstreamCaptureMode was = ts_capture_relax(CU_STREAM_CAPTURE_MODE_RELAXED);
    if (ts_measurable(stream, &current) && !ts_capturing(stream)) {
        ts_lock_take(&guard);
        struct ts_context *context = ts_context_of(current, card);
        if (context && !context->broken) {
            poll_context(context);
            calibrate(context, stream);
            probe->before = ts_mark_record(context, stream);
            probe->context = probe->before ? context : NULL;
        }
        if (context && context->broken)
            ts_gap(TESSERA_GAP_EVENTS);
        if (probe->context && line->open) {
            uint64_t before = __atomic_load_n(&line->total_ns, __ATOMIC_RELAXED) - predicted, sum = before - line->marked_ns;
            line->marked_ns = before;
            if (sum && sum < TS_MOST_SUM_NS && line->context == context) {
                probe->before->references++;
                enqueue(context, (struct ts_span){.from = line->open, .to = probe->before, .predicted = sum});
            } else {
                ts_mark_release(line->open);
            }
            line->open = NULL;
        }
        ts_lock_give(&guard);
    }
    ts_capture_relax(was);
}

void ts_probe_end(struct ts_probe *probe, struct ts_card *card, CUstream stream, struct ts_line *line,
                  struct ts_guess *guess, uint64_t predicted, CUresult result) {
    struct ts_context *context = probe->context;
    (void)card;
    if (!context)
        return;
    CUstreamCaptureMode was = ts_capture_relax(CU_STREAM_CAPTURE_MODE_RELAXED);
    ts_lock_take(&guard);
    struct ts_mark *after = result == CUDA_SUCCESS && context->handle ? ts_mark_record(context, stream) : NULL;
    if (after) {
        uint32_t since = ts_get(guess->since);
        ts_set(guess->since, 0);
        after->references++; /* the line's own */
        enqueue(context, (struct ts_span){.from = probe->before, .to = after, .guess = guess, .predicted = predicted,
                                          .stands_for = since ? since : 1});
        ts_mark_release(line->open);
        line->open = after;
        line->context = context;
        line->marked_ns = __atomic_load_n(&line->total_ns, __ATOMIC_RELAXED);
    } else {
        ts_mark_release(probe->before);
    }
    ts_lock_give(&guard);
    ts_capture_relax(was);
}

/* The driver destroys the events with their context. */
void ts_spans_leave(CUcontext handle) {
    ts_lock_take(&guard);
    for (int i = 0; i < TS_CONTEXTS; i++) {
        struct ts_context *context = &ts_contexts[i];
        if (!handle || context->handle != handle)
            continue;
        for (uint32_t s = 0; s < context->spans; s++)
            unsettled(context, &context->span[s]);
        ts_lines_leave(context);
        memset(context, 0, sizeof *context);
    }
    ts_lock_give(&guard);
}

void ts_spans_reset(void) {
    memset(ts_contexts, 0, sizeof ts_contexts);
    ts_lines_reset();
    ts_captures_reset();
    guard.word = 0;
    ts_guess_reset();
}
