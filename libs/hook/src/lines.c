/* Streams: what was launched on each since its last mark, and the sums in the usage file. */
#include <string.h>

#include "clock.h"
#include "relaxed.h"
#include "spans.h"
#include "start.h"

#define LINES 1024u

static struct ts_line lines[LINES];
static __thread char thread_mark __attribute__((tls_model("initial-exec")));

struct ts_line *ts_line_of(CUstream stream) {
    uint64_t key = (uint64_t)(uintptr_t)stream;
    if (stream == CU_STREAM_PER_THREAD)
        key = (uint64_t)(uintptr_t)&thread_mark;
    else if (!stream)
        key = 1; /* the legacy stream has two names */
    uint32_t home = (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 44) & (LINES - 1);
    for (uint32_t i = 0; i < 16; i++) {
        struct ts_line *line = &lines[(home + i) & (LINES - 1)];
        uint64_t theirs = __atomic_load_n(&line->key, __ATOMIC_ACQUIRE);
        if (theirs == key)
            return line;
        if (!theirs) {
            if (__atomic_compare_exchange_n(&line->key, &theirs, key, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) ||
                theirs == key)
                return line;
        }
    }
    return &lines[home]; /* shared with another stream: spans get blurred, sums stay right */
}

uint64_t ts_gained(const struct ts_card *card, uint64_t ns) {
    uint32_t gain = __atomic_load_n(&card->shared->gain_permille, __ATOMIC_RELAXED);
    return gain == 1000 || gain == 0 || gain > 8000 ? ns : ns * gain / 1000;
}

/* GPU time that turned out to be more or less than was debited for it. */
void ts_account(struct ts_card *card, int64_t ns) {
    uint64_t size = (uint64_t)(ns < 0 ? -ns : ns), gained = ts_gained(card, size);
    __atomic_add_fetch(&card->shared->raw_ns, (uint64_t)ns, __ATOMIC_RELAXED);
    __atomic_add_fetch(&card->shared->gpu_ns, ns < 0 ? (uint64_t)0 - gained : gained, __ATOMIC_RELAXED);
    __atomic_add_fetch(&card->mine->gpu_ns, ns < 0 ? (uint64_t)0 - gained : gained, __ATOMIC_RELAXED);
}

void ts_line_flush(struct ts_card *card, struct ts_line *line) {
    uint64_t launches = __atomic_exchange_n(&line->launches, 0, __ATOMIC_RELAXED);
    uint64_t total = __atomic_load_n(&line->total_ns, __ATOMIC_RELAXED);
    uint64_t ns = total - __atomic_exchange_n(&line->flushed_ns, total, __ATOMIC_RELAXED); /* below 0 if another was faster */
    uint64_t now = ts_real_of(ts_get(ts_ticked));
    if (!launches && !ns)
        return;
    __atomic_add_fetch(&card->shared->launches, launches, __ATOMIC_RELAXED);
    __atomic_add_fetch(&card->mine->launches, launches, __ATOMIC_RELAXED);
    ts_account(card, (int64_t)ns);
    __atomic_store_n(&card->shared->last_launch_ns, now, __ATOMIC_RELAXED);
    __atomic_store_n(&card->mine->last_launch_ns, now, __ATOMIC_RELAXED);
    __atomic_store_n(&card->mine->last_active_ns, now, __ATOMIC_RELAXED);
}

/* Its marks go with the context. The caller holds the lock over marks. */
void ts_lines_leave(const struct ts_context *context) {
    for (uint32_t i = 0; i < LINES; i++)
        if (lines[i].context == context) {
            lines[i].open = NULL;
            lines[i].context = NULL;
        }
}

void ts_lines_reset(void) {
    memset(lines, 0, sizeof lines);
}
