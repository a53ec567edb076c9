/* The limits in force: from the limits file if there is a valid one, else from the environment. */
#ifndef TESSERA_SRC_LIMITS_H
#define TESSERA_SRC_LIMITS_H

#include "cards.h"
#include "tessera/limits.h"

enum ts_source { TS_NO_LIMITS, TS_LIMITS_FILE, TS_LIMITS_ENVIRONMENT };

enum ts_source ts_limits_start(void); /* reads file or environment once */
enum ts_source ts_limits_source(void);
const char *ts_limits_usage_path(void);
/* Reads the file again, or (unless anyway) leaves it to another process that just did; keeps the last valid one. */
void ts_limits_refresh(int anyway);
void ts_limits_apply(struct ts_card *card); /* copies into the card what concerns it */
void ts_limits_compare(struct ts_card *card); /* notes a gap while more is charged than it allows */
void ts_limits_reset(void);            /* in a forked child: another thread of the parent may have held the lock */
uint32_t ts_limits_flags(void);        /* TESSERA_SUSPEND and so on, less a hold that is over */

/* Read and check a file: 1 valid, 0 absent, -1 there but not valid. */
int ts_limits_read(const char *path, struct tessera_limits *out);
int ts_limits_valid(const struct tessera_limits *limits);

/* environment.c: HAMi-core's variables. 1 if any is set. `get` is getenv, or a test's. */
typedef const char *(*ts_getenv)(const char *name);
int ts_environment(struct tessera_limits *out, ts_getenv get);
const char *ts_environment_get(const char *name); /* getenv, then process 1's */

#endif
