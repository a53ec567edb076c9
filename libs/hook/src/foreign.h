/* Memory that another process or another API made. */
#ifndef TESSERA_SRC_FOREIGN_H
#define TESSERA_SRC_FOREIGN_H

#include "cards.h"
#include "real.h"

int ts_foreign_from_elsewhere(void *shareable, CUmemAllocationHandleType type); /* not of this container */
void ts_foreign_exported(const void *shareable, CUmemAllocationHandleType type); /* by this container */
void ts_foreign_freed(CUdeviceptr dptr); /* exported memory is about to be freed: its name is free again */
void ts_foreign_shown(struct ts_card *card, int64_t bytes); /* imported, charged where it was made */

#endif
