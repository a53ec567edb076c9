/* What this process holds: a hash table from a handle to what it costs. O(1), one lock. */
#ifndef TESSERA_SRC_LEDGER_H
#define TESSERA_SRC_LEDGER_H

#include <stddef.h>
#include <stdint.h>

/* What kind of handle a key is; handles of different kinds may have equal values. */
enum ts_thing { TS_POINTER = 1, TS_ARRAY_HANDLE, TS_MIPMAP, TS_VMM, TS_MAPPING, TS_ASYNC, TS_GRAPH_EXEC, TS_CODE,
                TS_CONTEXT_OBJECT, TS_FOREIGN, TS_CODE_PART, TS_POOL_IMPORT, TS_PAGE, TS_IMAGE,
                TS_KERNEL };

struct ts_holding {
    uint64_t key;
    uint64_t bytes; /* TS_MAPPING: of the range; TS_IMAGE: what its code may take on a card */
    uint64_t owner; /* context that frees it when it goes; TS_MAPPING: the TS_VMM key;
                     * TS_ASYNC: its pool; TS_KERNEL: its library */
    uint32_t references; /* TS_VMM: handles; TS_FOREIGN, TS_POOL_IMPORT: times opened; TS_PAGE: allocations there;
                          * TS_POINTER, TS_ASYNC: 1: exported */
    uint32_t mappings;   /* TS_VMM: live maps */
    uint8_t thing;       /* 0: empty */
    uint8_t kind;        /* enum tessera_kind */
    uint8_t card;
    uint8_t charged; /* 0: shown, not charged (imported); TS_POINTER: the pages that it shares are */
};

/* All return 0 when the key is not there (put: when memory ran out). */
int ts_ledger_put(const struct ts_holding *holding);
int ts_ledger_take(enum ts_thing thing, uint64_t key, struct ts_holding *out);
/* Any whose key lies in [from, to): looks at all there are. */
int ts_ledger_take_within(enum ts_thing thing, uint64_t from, uint64_t to, struct ts_holding *out);
int ts_ledger_look(enum ts_thing thing, uint64_t key, struct ts_holding *out);
/* Change references and mappings; when both are zero it is taken out. Returns 2 then. */
int ts_ledger_count(enum ts_thing thing, uint64_t key, int references, int mappings, struct ts_holding *out);
/* One reference more, or put it there: 1 if it is new. */
int ts_ledger_join(const struct ts_holding *holding);
void ts_ledger_mark_exported(enum ts_thing thing, uint64_t pointer);
/* Take everything that `owner` would free; calls `each` without the lock held. */
size_t ts_ledger_take_owned(uint64_t owner, void (*each)(const struct ts_holding *));
/* Everything of this thing and owner is charged by itself from now on; returns how much that is. */
uint64_t ts_ledger_adopt(enum ts_thing thing, uint64_t owner);
/* More bytes for a charged one; 0: it is not there, or has as many. */
int ts_ledger_extend(enum ts_thing thing, uint64_t key, uint64_t bytes);
/* Puts it there, or adds its bytes to what is there, up to `most` in all. Returns how many were added, and in `out`
 * what is there now. */
uint64_t ts_ledger_grow(const struct ts_holding *more, uint64_t most, struct ts_holding *out);
size_t ts_ledger_size(void);
void ts_ledger_reset(void); /* in a forked child: drops all, frees the lock */

#endif
