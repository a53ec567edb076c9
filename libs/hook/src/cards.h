/* The cards that this process may see, each with its limit in force and its place in the usage
 * file. Found by UUID, so CUDA_VISIBLE_DEVICES may order and spell them as it likes. */
#ifndef TESSERA_SRC_CARDS_H
#define TESSERA_SRC_CARDS_H

#include "lock.h"
#include "tessera/limits.h"
#include "tessera/usage.h"

struct ts_card {
    /* Read by every call: one line of memory. */
    _Alignas(64) struct tessera_card_usage *shared;
    struct tessera_slot *mine; /* never NULL: a scratch slot before one is claimed */
    uint32_t index; /* of its record in the usage file, and in the table here */
    int32_t slot;   /* ours in the usage file; -1: not claimed yet */
    /* in force; stored by whoever refreshes the limits, read by all */
    uint32_t granted; /* 0: the limits file does not list it, nothing may be taken */
    uint32_t flags;   /* TESSERA_CARD_* */
    uint64_t limit_bytes; /* 0: none */
    uint32_t rate_permille; /* 1000: no limit */
    uint32_t brothers;      /* other processes of the container with a slot, if they take turns */
    int64_t lease_below_ns; /* they do while the bucket holds less */
    uint64_t resident_bytes;
    /* less often */
    ts_lock lock;   /* threads of this process, around every change of the charge */
    uint64_t own[TESSERA_KINDS]; /* what we charged, should the file have to be rebuilt */
    uint64_t page_room; /* in pages that small allocations of this process share */
    int32_t ordinal; /* CUDA device; -1: known through NVML only */
    char uuid[TESSERA_UUID_BYTES];
};

/* The last one stands for every card that cannot be told or has no room here: it gives nothing. */
extern struct ts_card ts_cards[TESSERA_CARDS + 1];

struct ts_card *ts_card_by_uuid(const char *uuid, int ordinal); /* NULL: nothing is limited here */
struct ts_card *ts_card_by_device(int device);                  /* NULL: no such device */
struct ts_card *ts_card_current(void);                          /* NULL: no context */
uint32_t ts_card_count(void);
void ts_cards_attach(void); /* find the records anew after the usage file was opened */
void ts_cards_reset(void);  /* in a forked child */
void ts_uuid_text(const char bytes[16], char text[TESSERA_UUID_BYTES]);
/* Do both name the same device? "GPU-x" and "MIG-x" are compared without what precedes x. */
int ts_uuid_same(const char *a, const char *b);

#endif
