/* Marks: events of ours on the application's streams, and where they lie on the GPU's line of time.
 * All of it under the lock of spans.c. */
#ifndef TESSERA_SRC_MARKS_H
#define TESSERA_SRC_MARKS_H

#include "cards.h"
#include "guess.h"
#include "real.h"

#define TS_CONTEXTS 16
#define TS_MARKS 192
#define TS_SPANS 96

struct ts_mark {
    CUevent event;
    uint32_t references; /* 0: free */
    uint64_t recorded;   /* by our clock, when the record was asked for */
};

struct ts_span {
    struct ts_mark *from, *to;
    struct ts_guess *guess; /* NULL: several launches between two marks */
    uint64_t predicted;
    uint32_t stands_for; /* launches of its function since the one that was measured before, itself included */
};

struct ts_context {
    CUcontext handle; /* NULL: free entry */
    struct ts_card *card;
    struct ts_mark mark[TS_MARKS];
    struct ts_span span[TS_SPANS];
    uint32_t spans;
    struct ts_mark *anchor; /* its event's time is known: */
    int64_t anchor_ns;      /* on the GPU's line of time, whose zero is the first anchor */
    int64_t ahead;          /* our clock minus that line; at least, so far */
    int knows_ahead;
    int64_t empty_ns; /* what two records back to back show */
    int calibrations;
    int broken; /* events fail here: measure nothing more */
};

extern struct ts_context ts_contexts[TS_CONTEXTS];

void ts_mark_release(struct ts_mark *mark);
struct ts_context *ts_context_of(CUcontext handle, struct ts_card *card); /* NULL: too many */
struct ts_mark *ts_mark_record(struct ts_context *context, CUstream stream); /* NULL: none to spare, or refused */
int ts_mark_place(struct ts_context *context, struct ts_mark *mark, int64_t *at);
int ts_measurable(CUstream stream, CUcontext *current); /* is it a stream of the current context? */

#endif
