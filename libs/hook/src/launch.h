/* Around every launch: wait while the container is in debt, debit what it will probably cost, and
 * measure now and then what it did cost. */
#ifndef TESSERA_SRC_LAUNCH_H
#define TESSERA_SRC_LAUNCH_H

#include "spans.h"

struct ts_launch {
    struct ts_card *card; /* NULL: not ours to count */
    struct ts_line *line;
    struct ts_guess *guess;
    uint64_t predicted;
    uint64_t free_before; /* of a first launch, where code is charged; else 0 */
    CUstream stream;
    struct ts_probe probe;
};

void ts_launch_begin(struct ts_launch *launch, uint64_t key, CUstream stream);
void ts_launch_end_slowly(struct ts_launch *launch, CUresult result);

static inline void ts_launch_end(struct ts_launch *launch, CUresult result) {
    if (__builtin_expect(launch->card && (launch->probe.context || result != CUDA_SUCCESS || launch->free_before), 0))
        ts_launch_end_slowly(launch, result);
}

#endif
