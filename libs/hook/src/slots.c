#include "slots.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "points.h"
#include "relaxed.h"
#include "usage_map.h"
#include "version.h"

#define AWAITED 0x80000000u
#define LOOK_EVERY (5 * TS_MS)
#define PATIENCE (2 * TS_S)
#define ASK_AGAIN (100 * TS_MS)

static uint32_t gaps;

/* Start time and state of a process; the name in between may hold anything, ')' too. */
static int read_stat(int pid, uint64_t *started, char *state) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0)
        return 0;
    text[got] = 0;
    char *at = strrchr(text, ')');
    if (!at || sscanf(at + 1, " %c", state) != 1)
        return 0;
    for (int field = 2; field < 22 && at; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return 0;
    *started = strtoull(at, NULL, 10);
    return 1;
}

/* Of this program; what ran in this process before an exec is another. */
static int is_ours(uint32_t index) {
    for (uint32_t i = 0; i < TESSERA_CARDS; i++)
        if (__atomic_load_n(&ts_cards[i].slot, __ATOMIC_ACQUIRE) == (int32_t)index)
            return 1;
    return 0;
}

int ts_slot_alive(const struct tessera_slot *slot, uint32_t index) {
    uint64_t started;
    char state;
    int held = ts_alive_held(index);
    if (held == 1 || is_ours(index))
        return 1;
    int pid = __atomic_load_n(&slot->pid, __ATOMIC_RELAXED);
    if (pid <= 0)
        return 0;
    if (!read_stat(pid, &started, &state))
        return access("/proc/self/stat", F_OK) != 0 && kill(pid, 0) == 0;
    if (state == 'Z' || state == 'X' || (slot->started && started != slot->started))
        return 0;
    if (held < 0)
        return 1;
    /* The process lives and nobody holds its mark: it has closed our descriptor and will notice, or
     * it runs another program now, which holds nothing. */
    return pid != getpid() && ts_usage_mapped_by(pid);
}

uint32_t ts_slots_high(void) {
    uint32_t high = __atomic_load_n(&ts_usage()->slots_high, __ATOMIC_RELAXED);
    return high && high < TESSERA_SLOTS ? high : TESSERA_SLOTS;
}

uint64_t ts_card_managed(uint32_t card) {
    struct tessera_usage *usage = ts_usage();
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ts_slots_high(); i++) {
        const struct tessera_slot *slot = &usage->slot[i];
        if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == TESSERA_SLOT_LIVE && slot->card == card)
            sum += __atomic_load_n(&slot->bytes[TESSERA_MANAGED], __ATOMIC_RELAXED);
    }
    return sum;
}

/* Sum of what the slots of a card say; the caller holds the card's lock. */
void ts_card_recount(struct tessera_card_usage *shared, uint32_t card) {
    struct tessera_usage *usage = ts_usage();
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ts_slots_high(); i++) {
        const struct tessera_slot *slot = &usage->slot[i];
        if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == TESSERA_SLOT_LIVE && slot->card == card)
            for (int kind = 0; kind < TESSERA_KINDS; kind++)
                sum += __atomic_load_n(&slot->bytes[kind], __ATOMIC_RELAXED);
    }
    __atomic_store_n(&shared->charged_bytes, sum, __ATOMIC_RELAXED);
}

/* May the lock be taken from its holder? Yes if that process is dead, or has not moved on for so
 * long that it must be stopped: its own slot stays exact, the sum is counted anew. */
static int holder_is_gone(uint32_t word, uint64_t since) {
    uint32_t index = (word & ~AWAITED) - 1;
    if (index >= TESSERA_SLOTS)
        return 1;
    const struct tessera_slot *slot = &ts_usage()->slot[index];
    if (is_ours(index))
        return ts_coarse() - since > PATIENCE;
    return slot->state != TESSERA_SLOT_LIVE || !ts_slot_alive(slot, index) || ts_coarse() - since > PATIENCE;
}

static int acquire(struct tessera_card_usage *shared, uint32_t expected, uint32_t word) {
    return __atomic_compare_exchange_n(&shared->lock, &expected, word, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void ts_card_lock(struct tessera_card_usage *shared, uint32_t as) {
    const struct timespec most = {0, (long)LOOK_EVERY};
    uint64_t since = 0;
    uint32_t last = 0;
    for (int i = 0; i < 100; i++) {
        if (acquire(shared, 0, as + 1))
            return;
        ts_pause();
    }
    for (;;) {
        uint32_t word = __atomic_load_n(&shared->lock, __ATOMIC_RELAXED);
        if (!word) {
            if (acquire(shared, 0, (as + 1) | AWAITED))
                return;
            continue;
        }
        if ((word & ~AWAITED) != last) {
            last = word & ~AWAITED;
            since = ts_coarse();
        }
        if (ts_coarse() - since >= LOOK_EVERY && holder_is_gone(word, since) &&
            acquire(shared, word, (as + 1) | AWAITED)) {
            ts_card_recount(shared, (uint32_t)(shared - ts_usage()->card));
            return;
        }
        if (!(word & AWAITED) && !acquire(shared, word, word | AWAITED))
            continue;
        ts_futex_wait(&shared->lock, word | AWAITED, 1, &most);
    }
}

int ts_card_unlock(struct tessera_card_usage *shared, uint32_t as) {
    uint32_t word = as + 1;
    if (__atomic_compare_exchange_n(&shared->lock, &word, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return 1;
    word = (as + 1) | AWAITED;
    if (!__atomic_compare_exchange_n(&shared->lock, &word, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return 0; /* while we were stopped: not ours to free */
    ts_futex_wake(&shared->lock, 1, 1);
    return 1;
}

/* Under the structure lock. Our own slot index serves as the name under which we lock the card. */
static void reclaim(struct tessera_slot *slot, uint32_t index, uint32_t as) {
    uint32_t card = slot->card < TESSERA_CARDS ? slot->card : 0;
    struct tessera_card_usage *shared = &ts_usage()->card[card];
    ts_card_lock(shared, as);
    ts_point("reclaim: locked");
    int64_t back = slot->outstanding_ns;
    if (back > 0 && back < (int64_t)(100 * TS_S))
        __atomic_add_fetch(&shared->tokens_ns, back, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->state, TESSERA_SLOT_FREE, __ATOMIC_RELEASE);
    ts_point("reclaim: freed");
    ts_card_recount(shared, card);
    ts_card_unlock(shared, as);
    ts_log(TS_LOG_NOTE, "reclaimed the slot %u of process %d", index, slot->pid);
}

/* And counts the living of each card. */
static int reap_under_lock(uint32_t as) {
    struct tessera_usage *usage = ts_usage();
    uint32_t living[TESSERA_CARDS] = {0};
    int reaped = 0;
    for (uint32_t i = 0; i < ts_slots_high(); i++) {
        struct tessera_slot *slot = &usage->slot[i];
        if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != TESSERA_SLOT_LIVE)
            continue;
        if (i == as || is_ours(i) || ts_slot_alive(slot, i)) {
            living[slot->card % TESSERA_CARDS]++;
        } else {
            reclaim(slot, i, as);
            reaped++;
        }
    }
    for (uint32_t i = 0; i < TESSERA_CARDS; i++)
        if (ts_get(usage->card[i].processes) != living[i])
            ts_set(usage->card[i].processes, living[i]);
    return reaped;
}

static int any_slot(void) {
    for (uint32_t i = 0; i < TESSERA_CARDS; i++)
        if (ts_cards[i].slot >= 0)
            return ts_cards[i].slot;
    return -1;
}

int ts_slots_reap(void) {
    int as = any_slot();
    if (as < 0 || !ts_usage_shared())
        return 0;
    ts_structure_lock();
    int reaped = reap_under_lock((uint32_t)as);
    ts_structure_unlock();
    return reaped;
}

/* One for all: each asks the kernel for every slot's mark of life, under the lock of all. */
int ts_slots_reap_in_turn(uint64_t every) {
    uint64_t now = ts_coarse(), last = __atomic_load_n(&ts_usage()->reaped_ns, __ATOMIC_RELAXED);
    if ((now >= last && now - last < every) ||
        !__atomic_compare_exchange_n(&ts_usage()->reaped_ns, &last, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return 0;
    ts_slots_reap();
    return 1;
}

static int find_free(struct tessera_usage *usage) {
    for (uint32_t i = 0; i < TESSERA_SLOTS; i++)
        if (__atomic_load_n(&usage->slot[i].state, __ATOMIC_ACQUIRE) != TESSERA_SLOT_LIVE && ts_alive_hold(i))
            return (int)i;
    return -1;
}

static void fill(struct tessera_slot *slot, uint32_t card) {
    char state;
    memset(slot, 0, sizeof *slot);
    slot->pid = (int32_t)getpid();
    slot->card = card;
    slot->version = TESSERA_VERSION;
    slot->gaps = gaps;
    if (!read_stat(slot->pid, &slot->started, &state))
        slot->started = 0;
    int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t got = read(fd, slot->command, sizeof slot->command - 1);
        slot->command[got > 0 ? got - 1 : 0] = 0;
        close(fd);
    }
}

/* An older library may have claimed slots and left no word of it. */
static void note_high(struct tessera_usage *usage, uint32_t high) {
    uint32_t known = usage->slots_high;
    for (uint32_t i = TESSERA_SLOTS; !known && i > high; i--)
        if (__atomic_load_n(&usage->slot[i - 1].state, __ATOMIC_ACQUIRE) == TESSERA_SLOT_LIVE)
            high = i;
    if (high > known)
        __atomic_store_n(&usage->slots_high, high, __ATOMIC_RELAXED);
}

int ts_slot_claim(struct ts_card *card) {
    struct tessera_usage *usage = ts_usage();
    if (card->index >= TESSERA_CARDS) /* the one that gives nothing */
        return 0;
    ts_structure_lock();
    int index = find_free(usage);
    if (index >= 0) {
        fill(&usage->slot[index], card->index);
        note_high(usage, (uint32_t)index + 1);
        ts_point("claim: filled");
        __atomic_store_n(&card->slot, index, __ATOMIC_RELEASE);
        __atomic_store_n(&card->mine, &usage->slot[index], __ATOMIC_RELEASE);
        __atomic_store_n(&usage->slot[index].state, TESSERA_SLOT_LIVE, __ATOMIC_RELEASE);
        reap_under_lock((uint32_t)index); /* whoever died before us must not cost us anything */
    }
    ts_structure_unlock();
    return index >= 0;
}

/* For those that go on without one, on what is counted in the process alone. */
void ts_slot_want(struct ts_card *card) {
    static uint64_t refused;
    uint64_t last = __atomic_load_n(&refused, __ATOMIC_RELAXED);
    if (last && ts_coarse() - last < ASK_AGAIN)
        return;
    ts_lock_take(&card->lock);
    int claimed = card->slot >= 0 || ts_slot_claim(card);
    ts_lock_give(&card->lock);
    __atomic_store_n(&refused, claimed ? 0 : ts_coarse(), __ATOMIC_RELAXED);
    if (!claimed)
        ts_log_once(TS_LOG_ERROR, "no slot in the usage file is free: launches are limited, memory is refused");
}

void ts_gap(uint32_t gap) {
    __atomic_or_fetch(&gaps, gap, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < TESSERA_CARDS; i++)
        if (ts_cards[i].slot >= 0)
            __atomic_or_fetch(&ts_cards[i].mine->gaps, gap, __ATOMIC_RELAXED);
}
