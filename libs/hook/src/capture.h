/* Streams being captured: what goes there does not run, and must not be disturbed. */
#ifndef TESSERA_SRC_CAPTURE_H
#define TESSERA_SRC_CAPTURE_H

#include "real.h"

extern int ts_captures;         /* in this process, as far as we saw them begin */
extern int ts_captures_unseen;  /* 1: one was met that we did not see begin, so that every stream is asked from then on */

static inline int ts_any_capture(void) {
    return __atomic_load_n(&ts_captures, __ATOMIC_RELAXED) > 0 || __atomic_load_n(&ts_captures_unseen, __ATOMIC_RELAXED);
}

int ts_capturing(CUstream stream); /* also 1 where the driver would not say */
void ts_captures_reset(void);      /* in a forked child */
/* Our own calls must not break a capture that any thread has going. Returns what to put back. */
CUstreamCaptureMode ts_capture_relax(CUstreamCaptureMode mode);

#endif
