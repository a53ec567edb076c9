/* When the library wakes up: at the first driver call or lookup, never when it is loaded. */
#ifndef TESSERA_SRC_START_H
#define TESSERA_SRC_START_H

#include "real.h"

#define TS_HIDDEN __attribute__((visibility("hidden")))
#if defined(__x86_64__)
#define TS_LARGEST_PAGE 4096
#else
#define TS_LARGEST_PAGE 65536
#endif
#define ts_likely(x) __builtin_expect(!!(x), 1)
#define ts_unlikely(x) __builtin_expect(!!(x), 0)

/* In pages that are zero in a child, however it was forked: then nothing here is what it was. */
struct ts_states {
    int cuda, nvml; /* 2: ready */
    int begun;      /* TS_BEGUN: this process has begun, and knows of it; else the process that begins, or 0 */
};
#define TS_BEGUN (-1)
union ts_state_page {
    struct ts_states is;
    char page[TS_LARGEST_PAGE];
};
extern union ts_state_page ts_state;
#define ts_state_cuda ts_state.is.cuda
#define ts_state_nvml ts_state.is.nvml
extern int ts_active;                    /* 0: no limits were given, everything passes through */

void ts_start_cuda(void);
void ts_start_nvml(void);
/* Housekeeping, at most every 20 ms: limits, usage file, dead processes. Cheap when not due. */
int ts_tick(void); /* 1: it was due, and this call did it */
void ts_tick_now(void);
extern uint64_t ts_ticked; /* coarse time of the last one */
#define TS_TICK_NS 20000000ull

/* First line of every wrapper: be ready; stand aside where there is nothing to enforce. */
#define TS_ENTER(symbol, args)                                   \
    do {                                                         \
        if (ts_unlikely(ts_state_cuda != 2))                     \
            ts_start_cuda();                                     \
        if (ts_unlikely(!real.symbol))                           \
            return CUDA_ERROR_NOT_FOUND;                         \
        if (ts_unlikely(!ts_active))                             \
            return real.symbol args;                             \
    } while (0)

#endif
