#include "exports.h"

#include "usage_map.h"

/* What was exported is known by a print of 16 bits, in one of two rows that its name chooses: a table of
 * 3,584 bytes holds 1,792 of them, and takes one in 4,000 of another container's for one of its own. */
#define PLACES 8u
#define ROWS (TESSERA_EXPORTS / PLACES)

static uint64_t mixed(uint64_t h) {
    h = (h ^ (h >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ (h >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ (h >> 33);
}

uint64_t ts_export_name(const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    return mixed(h);
}

static uint16_t print_of(uint64_t name) {
    return (uint16_t)(name >> 48) ? (uint16_t)(name >> 48) : 1;
}

static uint16_t *row_of(uint64_t name, unsigned which) {
    return &ts_usage()->exported[(uint32_t)(which ? name >> 24 : name) % ROWS * PLACES];
}

/* The place of a name, or NULL; `free_places` of either row are counted on the way. */
static uint16_t *find(uint64_t name, unsigned free_places[2]) {
    for (unsigned which = 0; which < 2; which++) {
        uint16_t *row = row_of(name, which);
        free_places[which] = 0;
        for (unsigned i = 0; i < PLACES; i++) {
            uint16_t there = __atomic_load_n(&row[i], __ATOMIC_RELAXED);
            if (there == print_of(name))
                return &row[i];
            free_places[which] += !there;
        }
    }
    return NULL;
}

static int put(uint16_t *row, uint16_t print) {
    for (unsigned i = 0; i < PLACES; i++) {
        uint16_t there = 0;
        if (__atomic_compare_exchange_n(&row[i], &there, print, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return 1;
    }
    return 0;
}

void ts_export_remember(uint64_t name) {
    unsigned room[2];
    if (find(name, room))
        return;
    unsigned first = room[1] > room[0];
    if (!put(row_of(name, first), print_of(name)) && !put(row_of(name, !first), print_of(name))) /* an old one is forgotten */
        __atomic_store_n(&row_of(name, 0)[(name >> 40) % PLACES], print_of(name), __ATOMIC_RELAXED);
}

int ts_export_is_ours(uint64_t name) {
    unsigned room[2];
    return find(name, room) != NULL;
}

void ts_export_forget(uint64_t name) {
    unsigned room[2];
    uint16_t *at = find(name, room);
    if (at)
        __atomic_store_n(at, 0, __ATOMIC_RELAXED);
}
