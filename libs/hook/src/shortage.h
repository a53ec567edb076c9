/* An allocation that the driver refuses although the share has room: others have the memory. Where the limits file
 * says that the agent takes it from them, it is tried again until it succeeds or 5 s are over. */
#ifndef TESSERA_SRC_SHORTAGE_H
#define TESSERA_SRC_SHORTAGE_H

#include "cards.h"
#include "real.h"
#include "start.h"

struct ts_shortage {
    int gave, waits; /* its idle pools gave back; it waits, */
    uint64_t since;  /* from this ts_now() on */
};

/* After the driver's answer `r` to an allocation of `bytes`: 1 when it is to be tried again, after a while in which
 * the agent is shown what is wanted. */
int ts_shortage_again(struct ts_shortage *shortage, struct ts_card *card, uint64_t bytes, CUresult r);

/* `call` is the driver's function with its arguments; `r` has its last answer. One that succeeds costs nothing more. */
#define TS_ALLOCATE(r, card, bytes, call)                                                        \
    do {                                                                                         \
        struct ts_shortage shortage_ = {0, 0, 0};                                                \
        do                                                                                       \
            (r) = (call);                                                                        \
        while (ts_unlikely((r) == CUDA_ERROR_OUT_OF_MEMORY || shortage_.waits) &&                \
               ts_shortage_again(&shortage_, card, bytes, r));                                   \
    } while (0)

#endif
