/* Measuring what ran: pairs of events on the application's own streams, asked later whether they
 * have happened, never waited for. A span between two marks was debited as `predicted`. */
#ifndef TESSERA_SRC_SPANS_H
#define TESSERA_SRC_SPANS_H

#include "cards.h"
#include "guess.h"
#include "real.h"

struct ts_context;

/* One stream's launches since its last mark. */
struct ts_line {
    uint64_t key; /* stream, or the thread for its default stream */
    uint64_t total_ns;   /* predicted, in all */
    uint64_t flushed_ns; /* of that in the usage file */
    uint64_t marked_ns;  /* of that before the last mark */
    uint64_t launches;   /* not yet in the usage file */
    struct ts_mark *open; /* end of the last span: the next one begins there */
    struct ts_context *context;
};

struct ts_probe {
    struct ts_context *context; /* NULL: not measured */
    struct ts_mark *before;
};

struct ts_line *ts_line_of(CUstream stream);
void ts_line_flush(struct ts_card *card, struct ts_line *line);
void ts_line_forget(CUstream stream);
void ts_lines_leave(const struct ts_context *context);
void ts_lines_reset(void);
void ts_account(struct ts_card *card, int64_t ns); /* more, or less, than was accounted before */
uint64_t ts_gained(const struct ts_card *card, uint64_t ns);

/* Around one launch of the driver. begin may decline (capture, no event to spare). */
void ts_probe_begin(struct ts_probe *probe, struct ts_card *card, CUstream stream, struct ts_line *line,
                    uint64_t predicted);
void ts_probe_end(struct ts_probe *probe, struct ts_card *card, CUstream stream, struct ts_line *line,
                  struct ts_guess *guess, uint64_t predicted, CUresult result);

void ts_spans_poll(void);              /* correct by whatever has finished */
void ts_spans_leave(CUcontext context); /* it is about to go: its events go with it */
void ts_spans_reset(void);             /* in a forked child */

#endif
