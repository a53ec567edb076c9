/* What the agent measured of the container's GPU time, and what follows from it. */
#ifndef TESSERA_SRC_MEASURED_H
#define TESSERA_SRC_MEASURED_H

#include "cards.h"

/* Whether the agent says what the container really had; without it nobody makes good what is counted too little. */
int ts_measured_of_late(const struct ts_card *card);
void ts_measured(struct ts_card *card, const struct tessera_card_limit *entry);

#endif
