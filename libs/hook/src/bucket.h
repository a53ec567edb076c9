/* The bucket of GPU time: one per container and card, in the usage file, filled by elapsed time
 * when somebody looks, so that no thread has to live for it. May go below zero: debt. */
#ifndef TESSERA_SRC_BUCKET_H
#define TESSERA_SRC_BUCKET_H

#include "tessera/usage.h"

#define TS_BURST_NS 50000000ll   /* what an idle container may save up, in time at its rate */
#define TS_MOST_DEBT_NS 100000000000ll
#define TS_MOST_CREDIT_NS 2000000000ll /* for time that a container was kept from, by replay of what was measured */

void ts_bucket_fill(struct tessera_card_usage *card, uint32_t rate_permille, uint64_t now);
int64_t ts_bucket_debit(struct tessera_card_usage *card, int64_t ns); /* negative gives back; what is left */
int64_t ts_bucket_cap(uint32_t rate_permille);
/* Bring the bucket into [low, high]. */
void ts_bucket_bound(struct tessera_card_usage *card, int64_t low, int64_t high);
int64_t ts_bucket_room(const struct tessera_card_usage *card, uint32_t rate_permille); /* before it overflows */

/* Kernels that run side by side, in any process of the container, use the card once: of `want`
 * nanoseconds spread over [start, end) this takes what fits beside what was taken before. */
uint64_t ts_bins_take(uint32_t bin[TESSERA_BINS], uint64_t start, uint64_t end, uint64_t want);

#endif
