/* Messages for support. Silent unless TESSERA_LOG_FILE names a file (or "stderr") that opens. */
#ifndef TESSERA_SRC_LOG_H
#define TESSERA_SRC_LOG_H

#include <stdint.h>

enum { TS_LOG_ERROR = 1, TS_LOG_WARNING, TS_LOG_NOTE };

extern uint32_t ts_log_level; /* from the limits file; 0: not said. The environment wins */
void ts_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As ts_log, at most once per process for each place in the source. */
#define ts_log_once(level, ...)                                       \
    do {                                                              \
        static int said;                                              \
        if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))         \
            ts_log((level), __VA_ARGS__);                             \
    } while (0)

#endif
