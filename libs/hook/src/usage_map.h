/* The usage file as this process has it mapped, and the lock over its structure. */
#ifndef TESSERA_SRC_USAGE_MAP_H
#define TESSERA_SRC_USAGE_MAP_H

#include "tessera/usage.h"

/* Map the file at `path` (created if absent, rebuilt if it is not a usage file); without one, memory
 * of this process alone. Never fails but for want of memory. Returns 1 when it is shared. */
int ts_usage_open(const char *path);
struct tessera_usage *ts_usage(void);
int ts_usage_shared(void);
/* Is our descriptor still ours, the file whole, and its path still this file? 0: reopen. The others see it by the next: */
int ts_usage_intact(void);
int ts_usage_current(void); /* without a call of the kernel: is the file what it was when it was opened? */
void ts_usage_forget(void);
void ts_usage_not_inherited(void); /* in a forked child */

/* Slots and records are claimed and reclaimed under this one; the kernel frees it on death. */
void ts_structure_lock(void);
void ts_structure_unlock(void);

/* The mark of life of one slot. hold: 0 if another process has it. held: by anybody but us. */
int ts_alive_hold(uint32_t slot);
void ts_alive_drop(uint32_t slot);
int ts_alive_held(uint32_t slot); /* -1: locks cannot be asked about here */
int ts_usage_mapped_by(int pid);  /* has that process the file mapped? 1 also where nobody can tell */

#endif
