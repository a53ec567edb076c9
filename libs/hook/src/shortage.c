#include "shortage.h"

#include "clock.h"
#include "log.h"
#include "points.h"
#include "pools.h"
#include "relaxed.h"

#define MOST_NS (5 * TS_S)
#define AGAIN_NS (20 * TS_MS)

static void want(struct ts_card *card, uint64_t bytes) {
    ts_set(card->shared->wanted_bytes, bytes);
    ts_set(card->shared->wanted_at_ns, bytes ? ts_real() : 0);
}

/* Another of the container that still waits says so again at its next attempt. */
static int end(struct ts_shortage *shortage, struct ts_card *card, uint64_t bytes, CUresult r) {
    int failed = r == CUDA_ERROR_OUT_OF_MEMORY;
    if (shortage->waits)
        want(card, 0);
    if (failed || (shortage->waits && r == CUDA_SUCCESS))
        __atomic_add_fetch(failed ? &card->shared->failed_for_others : &card->shared->waited_for_others, 1,
                           __ATOMIC_RELAXED);
    if (failed)
        ts_log(TS_LOG_NOTE, "%s: the driver refuses %llu bytes for which the share has room: others have the memory",
               card->uuid, (unsigned long long)bytes);
    return 0;
}

int ts_shortage_again(struct ts_shortage *shortage, struct ts_card *card, uint64_t bytes, CUresult r) {
    if (r != CUDA_ERROR_OUT_OF_MEMORY)
        return end(shortage, card, bytes, r);
    if (shortage->waits)
        ts_tick_now(); /* the agent may have found that nobody is left to take it from */
    if (!(ts_get(card->flags) & TESSERA_CARD_RECLAIM))
        return end(shortage, card, bytes, r);
    if (!shortage->gave) {
        shortage->gave = 1;
        if (ts_pools_give_back(card)) /* its own first */
            return 1;
    }
    if (!shortage->waits) {
        shortage->waits = 1;
        shortage->since = ts_now();
    }
    if (ts_now() - shortage->since >= MOST_NS)
        return end(shortage, card, bytes, r);
    want(card, bytes);
    ts_point("shortage: wanted");
    ts_sleep(AGAIN_NS);
    return 1;
}
