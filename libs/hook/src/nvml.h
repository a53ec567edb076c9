/* What the wrappers of NVML share. */
#ifndef TESSERA_SRC_NVML_H
#define TESSERA_SRC_NVML_H

#include "cards.h"
#include "real.h"

/* First line of every wrapper of NVML: be ready; stand aside where there is nothing to enforce. */
#define TS_NVML_ENTER(symbol, args)                   \
    do {                                              \
        if (ts_unlikely(ts_state_nvml != 2))          \
            ts_start_nvml();                          \
        if (ts_unlikely(!real.symbol))                \
            return NVML_ERROR_FUNCTION_NOT_FOUND;     \
        if (ts_unlikely(!ts_active))                  \
            return real.symbol args;                  \
    } while (0)

struct ts_card *ts_nvml_card(nvmlDevice_t device); /* NULL: not a card that is limited here */

#endif
