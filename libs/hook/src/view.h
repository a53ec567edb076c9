/* A card's memory as the container sees it, through the driver and through NVML alike. */
#ifndef TESSERA_SRC_VIEW_H
#define TESSERA_SRC_VIEW_H

#include "cards.h"

uint64_t ts_view_total(const struct ts_card *card, uint64_t total); /* the tile; 0: not granted */
/* What is left of the tile, and never more than the card itself has left. */
uint64_t ts_view_free(const struct ts_card *card, uint64_t unused, uint64_t total);

#endif
