/* What the agent measured of the container's GPU time, and what follows from it. */
#ifndef TESSERA_SRC_MEASURED_H
#define TESSERA_SRC_MEASURED_H

#include "cards.h"

void ts_measured(struct ts_card *card, const struct tessera_card_limit *entry);

#endif
