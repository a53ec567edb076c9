/* Stream-ordered memory: a pool is charged what it has reserved, used or not, and what graphs hold
 * on a device likewise. */
#ifndef TESSERA_SRC_POOLS_H
#define TESSERA_SRC_POOLS_H

#include "cards.h"
#include "real.h"

void ts_pools_settle(void); /* bring the charge to what the pools say now */
void ts_pools_settle_if_loose(void); /* only if a pool holds freed memory */
int ts_pools_give_back(struct ts_card *card); /* trim; 1 if the charge fell */
int ts_pool_forget(CUdeviceptr dptr);         /* freed by cuMemFree: was it a pool's? */
void ts_pools_graph_memory(struct ts_card *card); /* from now on look at graph memory too */
int ts_pools_capturing(CUstream stream);
void ts_pools_graph_launched(void);           /* settle graph memory, if any graph allocates */
void ts_pools_reset(void);

#endif
