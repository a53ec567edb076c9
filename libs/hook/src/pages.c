#include "pages.h"

#include "relaxed.h"

static uint64_t page_of(CUdeviceptr at) {
    return at / TS_PAGE_BYTES;
}

static void add_room(struct ts_card *card, uint64_t bytes) {
    __atomic_add_fetch(&card->page_room, bytes, __ATOMIC_RELAXED);
}

/* Room may lie in pieces that are too small: then more is charged afterwards. */
uint64_t ts_pages_ahead(const struct ts_card *card, uint64_t cost) {
    return ts_get(card->page_room) >= cost ? 0 : TS_PAGE_BYTES;
}

uint64_t ts_pages_enter(struct ts_card *card, CUdeviceptr at, uint64_t cost) {
    const struct ts_holding page = {.key = page_of(at), .references = 1, .thing = TS_PAGE, .card = (uint8_t)card->index};
    int is_new = ts_ledger_join(&page);
    add_room(card, (is_new ? TS_PAGE_BYTES : 0) - cost);
    return is_new ? TS_PAGE_BYTES : 0;
}

uint64_t ts_pages_leave(struct ts_card *card, CUdeviceptr at, uint64_t cost) {
    struct ts_holding page;
    int is_last = ts_ledger_count(TS_PAGE, page_of(at), -1, 0, &page) == 2;
    add_room(card, cost - (is_last ? TS_PAGE_BYTES : 0));
    return is_last ? TS_PAGE_BYTES : 0;
}
