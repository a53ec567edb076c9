#include "ledger.h"

#include <string.h>
#include <sys/mman.h>

#include "lock.h"

/* Open addressing with linear probing and backward-shift deletion, at most half full. The table is
 * mapped, not malloc'ed: an application may replace malloc and call the driver from inside it. */
static struct ts_holding *table;
static size_t capacity, count;
static ts_lock guard;

static size_t home_of(enum ts_thing thing, uint64_t key) {
    uint64_t h = (key ^ ((uint64_t)thing << 56)) * UINT64_C(0x9E3779B97F4A7C15);
    h ^= h >> 29;
    h *= UINT64_C(0xBF58476D1CE4E5B9);
    return (size_t)(h >> 20) & (capacity - 1);
}

static struct ts_holding *map_table(size_t entries) {
    void *at = mmap(NULL, entries * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static size_t probe(enum ts_thing thing, uint64_t key) {
    size_t i = home_of(thing, key);
    while (table[i].thing && !(table[i].thing == thing && table[i].key == key))
        i = (i + 1) & (capacity - 1);
    return i;
}

static int grow(void) {
    size_t old_capacity = capacity;
    struct ts_holding *old = table;
    struct ts_holding *fresh = map_table(old_capacity ? old_capacity * 2 : 1024);
    if (!fresh)
        return 0;
    table = fresh;
    capacity = old_capacity ? old_capacity * 2 : 1024;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].thing)
            table[probe(old[i].thing, old[i].key)] = old[i];
    if (old)
        munmap(old, old_capacity * sizeof *old);
    return 1;
}

/* Close the hole at i so that every later entry of the run is still found. */
static void remove_at(size_t i) {
    size_t hole = i, next = i;
    for (;;) {
        next = (next + 1) & (capacity - 1);
        if (!table[next].thing)
            break;
        size_t home = home_of(table[next].thing, table[next].key);
        if (((next - home) & (capacity - 1)) >= ((next - hole) & (capacity - 1))) {
            table[hole] = table[next];
            hole = next;
        }
    }
    memset(&table[hole], 0, sizeof table[hole]);
    count--;
}

/* With guard held. */
static int put(const struct ts_holding *holding) {
    int room = (count + 1) * 2 <= capacity || grow() || count + 1 < capacity;
    if (room) {
        size_t i = probe(holding->thing, holding->key);
        count += !table[i].thing;
        table[i] = *holding;
    }
    return room;
}

int ts_ledger_put(const struct ts_holding *holding) {
    ts_lock_take(&guard);
    int room = put(holding);
    ts_lock_give(&guard);
    return room;
}

int ts_ledger_join(const struct ts_holding *holding) {
    ts_lock_take(&guard);
    size_t i = capacity ? probe(holding->thing, holding->key) : 0;
    int is_new = !capacity || !table[i].thing;
    if (is_new)
        put(holding);
    else
        table[i].references += holding->references;
    ts_lock_give(&guard);
    return is_new;
}

static int find(enum ts_thing thing, uint64_t key, struct ts_holding *out, int take) {
    int found = 0;
    ts_lock_take(&guard);
    if (capacity) {
        size_t i = probe(thing, key);
        found = table[i].thing != 0;
        if (found && out)
            *out = table[i];
        if (found && take)
            remove_at(i);
    }
    ts_lock_give(&guard);
    return found;
}

int ts_ledger_take(enum ts_thing thing, uint64_t key, struct ts_holding *out) {
    return find(thing, key, out, 1);
}

int ts_ledger_take_within(enum ts_thing thing, uint64_t from, uint64_t to, struct ts_holding *out) {
    int found = 0;
    ts_lock_take(&guard);
    for (size_t i = 0; i < capacity && !found; i++)
        if (table[i].thing == thing && table[i].key >= from && table[i].key < to) {
            *out = table[i];
            remove_at(i);
            found = 1;
        }
    ts_lock_give(&guard);
    return found;
}

int ts_ledger_look(enum ts_thing thing, uint64_t key, struct ts_holding *out) {
    return find(thing, key, out, 0);
}

int ts_ledger_count(enum ts_thing thing, uint64_t key, int references, int mappings, struct ts_holding *out) {
    int found = 0;
    ts_lock_take(&guard);
    if (capacity) {
        size_t i = probe(thing, key);
        if (table[i].thing) {
            found = 1;
            table[i].references += (uint32_t)references;
            table[i].mappings += (uint32_t)mappings;
            *out = table[i];
            if (!table[i].references && !table[i].mappings) {
                remove_at(i);
                found = 2;
            }
        }
    }
    ts_lock_give(&guard);
    return found;
}

void ts_ledger_mark_exported(enum ts_thing thing, uint64_t pointer) {
    ts_lock_take(&guard);
    if (capacity) {
        size_t i = probe(thing, pointer);
        if (table[i].thing)
            table[i].references = 1;
    }
    ts_lock_give(&guard);
}

static int take_one_owned(uint64_t owner, size_t *from, struct ts_holding *out) {
    int found = 0;
    ts_lock_take(&guard);
    for (; *from < capacity && !found; ++*from)
        if (table[*from].thing && table[*from].thing != TS_MAPPING && table[*from].owner == owner) {
            *out = table[*from];
            remove_at(*from);
            --*from; /* the shift may have moved another one here */
            found = 1;
        }
    ts_lock_give(&guard);
    return found;
}

size_t ts_ledger_take_owned(uint64_t owner, void (*each)(const struct ts_holding *)) {
    size_t from = 0, taken = 0;
    struct ts_holding holding;
    if (!owner)
        return 0;
    while (take_one_owned(owner, &from, &holding)) {
        each(&holding);
        taken++;
    }
    return taken;
}

uint64_t ts_ledger_adopt(enum ts_thing thing, uint64_t owner) {
    uint64_t sum = 0;
    ts_lock_take(&guard);
    for (size_t i = 0; i < capacity; i++)
        if (table[i].thing == thing && table[i].owner == owner) {
            table[i].charged = 1;
            sum += table[i].bytes;
        }
    ts_lock_give(&guard);
    return sum;
}

int ts_ledger_extend(enum ts_thing thing, uint64_t key, uint64_t bytes) {
    int found = 0;
    ts_lock_take(&guard);
    if (capacity) {
        size_t i = probe(thing, key);
        found = table[i].thing && table[i].bytes < bytes;
        if (found)
            table[i].bytes = bytes;
    }
    ts_lock_give(&guard);
    return found;
}

uint64_t ts_ledger_grow(const struct ts_holding *more, uint64_t most, struct ts_holding *out) {
    ts_lock_take(&guard);
    size_t i = capacity ? probe(more->thing, more->key) : 0;
    int known = capacity && table[i].thing;
    uint64_t has = known ? table[i].bytes : 0, room = most > has ? most - has : 0;
    uint64_t added = more->bytes < room ? more->bytes : room;
    *out = known ? table[i] : *more;
    out->bytes = has + added;
    if (added && !put(out))
        added = 0;
    ts_lock_give(&guard);
    return added;
}

size_t ts_ledger_size(void) {
    return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

void ts_ledger_reset(void) {
    if (table)
        munmap(table, capacity * sizeof *table);
    table = NULL;
    capacity = count = 0;
    guard.word = 0;
}
