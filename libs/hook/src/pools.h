/* Memory that pools hold: a pool is charged what it has reserved, used or not, and what graphs hold
 * on a device likewise, as a pool of that device. */
#ifndef TESSERA_SRC_POOLS_H
#define TESSERA_SRC_POOLS_H

#include "cards.h"
#include "real.h"

struct ts_pool;

struct ts_pool *ts_pool_of(CUmemoryPool handle, const struct ts_card *current); /* NULL: not charged here */
struct ts_pool *ts_pool_of_graphs(struct ts_card *card); /* NULL: no graph has ever allocated there */
void ts_pool_remember(CUmemoryPool handle, struct ts_card *card); /* NULL: memory of the host, or of others */
uint64_t ts_pool_handle(const struct ts_pool *pool);
struct ts_card *ts_pool_card(const struct ts_pool *pool);

/* Around a call that may make the pool grow. take charges beforehand what it must grow by at least
 * for `bytes` more, if the call first frees `reused` of what is in use (0: refuse); grown keeps what it did grow by, and returns what did not fit;
 * finish forgets that a call was under way, and charges what cannot be undone all the same. */
int ts_pool_take(struct ts_pool *pool, uint64_t bytes, uint64_t reused, uint64_t *ahead);
uint64_t ts_pool_grown(struct ts_pool *pool, uint64_t ahead);
void ts_pool_finish(struct ts_pool *pool);
int ts_pool_trim(struct ts_pool *pool); /* 1: the driver did it */
void ts_pool_settle(CUmemoryPool handle);

struct ts_pool_memory {
    int known;
    uint32_t card;
    uint64_t charged;
};
struct ts_pool_memory ts_pool_leave(CUmemoryPool handle); /* it is about to be destroyed */
void ts_pool_left(struct ts_pool_memory was, CUmemoryPool handle, CUresult r);

void ts_pools_settle(void); /* bring the charge to what the pools say now */
void ts_pools_settle_if_loose(void); /* only if a pool may hold freed memory */
void ts_pools_loosen(void);          /* one may */
int ts_pools_give_back(struct ts_card *card); /* trim; 1 if the charge fell */
void ts_pools_graph_memory(struct ts_card *card); /* from now on look at graph memory too */
int ts_pools_have_graphs(void);
void ts_pools_reset(void);

#endif
