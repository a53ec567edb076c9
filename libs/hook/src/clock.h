/* The one seam through which all GPU-time arithmetic sees time pass. The driver may bring its own
 * clock (the simulated one does, by exporting two functions); else it is CLOCK_MONOTONIC. */
#ifndef TESSERA_SRC_CLOCK_H
#define TESSERA_SRC_CLOCK_H

#include <stdint.h>

#define TS_MS 1000000ull
#define TS_S 1000000000ull

typedef uint64_t (*ts_clock_now)(void);
typedef void (*ts_clock_sleep)(uint64_t ns);

void ts_clock_use(ts_clock_now now, ts_clock_sleep sleep); /* NULL: the machine's own */
uint64_t ts_now(void);
void ts_sleep(uint64_t ns);
/* Until a word that processes share is no longer `seen`; `most` at most. The driver's own clock may be `late`. */
void ts_clock_wait(uint32_t *word, uint32_t seen, uint64_t most, uint64_t late);

/* Cheap and coarse (a few ms), always the machine's own: for stamps and for housekeeping. */
uint64_t ts_coarse(void);
uint64_t ts_passing(void); /* the driver's clock if it has one; the machine's makes it grow as well, slowly */
uint64_t ts_real(void); /* CLOCK_REALTIME, exact */
uint64_t ts_real_of(uint64_t coarse);

#endif
