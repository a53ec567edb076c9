/* Contexts: what goes with them when they go. */
#ifndef TESSERA_SRC_CONTEXTS_H
#define TESSERA_SRC_CONTEXTS_H

void ts_contexts_reset(void); /* in a forked child */

#endif
