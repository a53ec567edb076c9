/* What the agent measured of the container's GPU time, and what follows from it. */
#ifndef TESSERA_SRC_MEASURED_H
#define TESSERA_SRC_MEASURED_H

#include "cards.h"

/* Whether the agent says what the container really had; without it nobody makes good what is counted too little. */
int ts_measured_of_late(const struct ts_card *card);
void ts_measured(struct ts_card *card, const struct tessera_card_limit *entry);
/* Another rate is in force; by one process of the container. */
void ts_measured_rate(struct ts_card *card, uint32_t before, uint32_t now);

#endif
