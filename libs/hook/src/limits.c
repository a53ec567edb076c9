#include "limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "charge.h"
#include "lease.h"
#include "measured.h"
#include "mount.h"
#include "points.h"
#include "relaxed.h"
#include "slots.h"
#include "usage_map.h"

#define PATIENCE 100 /* times 10 ms at a process's start, for a file that is there and not whole */

static struct tessera_limits current;
static uint32_t flags TS_HOT; /* of current, as of the last look */
static enum ts_source source TS_HOT;
static char path[512];
static char usage_path[512];
static int mounted; /* the agent mounted library and file: nothing else counts, nor does their absence */
static int closed TS_HOT; /* there is nothing that counts: nothing may be taken or launched */
static ts_lock guard;

int ts_limits_valid(const struct tessera_limits *limits) {
    if (limits->head.magic != TESSERA_LIMITS_MAGIC || limits->head.layout != TESSERA_LAYOUT)
        return 0;
    if (limits->head.size != TESSERA_LIMITS_SIZE || limits->head.cards > TESSERA_CARDS)
        return 0;
    for (uint32_t i = 0; i < limits->head.cards; i++)
        if (limits->card[i].mode > TESSERA_CORES_ELASTIC || !memchr(limits->card[i].uuid, 0, TESSERA_UUID_BYTES))
            return 0;
    return 1;
}

/* One reading: the file is never mapped, so nothing that happens to it can raise a signal here. */
static int read_once(int fd, struct tessera_limits *out) {
    struct tessera_head again;
    if (pread(fd, out, sizeof *out, 0) != (ssize_t)sizeof *out)
        return -1;
    if (pread(fd, &again, sizeof again, 0) != (ssize_t)sizeof again)
        return -1;
    if ((out->head.sequence & 1) || again.sequence != out->head.sequence)
        return 0; /* the agent is writing */
    return ts_limits_valid(out) ? 1 : -1;
}

static int read_from(int fd, struct tessera_limits *out) {
    int r = 0;
    for (int i = 0; i < 20 && r == 0; i++) {
        r = read_once(fd, out);
        if (r == 0)
            usleep(100);
    }
    close(fd);
    return r == 1 ? 1 : -1;
}

int ts_limits_read(const char *from, struct tessera_limits *out) {
    int fd = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    return read_from(fd, out);
}

/* The file of the agent's mount: 1 valid, -1 there but not valid or not readable for a while, 0 it is
 * gone or another file is in its place. */
static int read_mounted(struct tessera_limits *out) {
    int fd = ts_mount_open(path);
    if (fd < 0)
        return ts_mount_is_passing(errno) ? -1 : 0;
    return read_from(fd, out);
}

/* Where the agent put a file, the environment cannot name another. */
static void choose_paths(void) {
    struct stat there;
    const char *limits = getenv("TESSERA_LIMITS"), *usage = getenv("TESSERA_USAGE");
    int fixed = mounted || stat(TESSERA_LIMITS_PATH, &there) == 0;
    if (fixed || !limits)
        limits = TESSERA_LIMITS_PATH;
    snprintf(path, sizeof path, "%s", limits);
    if (fixed)
        snprintf(usage_path, sizeof usage_path, "%s", TESSERA_USAGE_PATH);
    else if (usage)
        snprintf(usage_path, sizeof usage_path, "%s", usage);
    else
        snprintf(usage_path, sizeof usage_path, "/tmp/tessera-usage-%u", (unsigned)geteuid());
}

static uint32_t over(uint32_t flag, uint64_t until_ns) {
    return (current.flags & flag) && until_ns && ts_real() >= until_ns ? flag : 0;
}

/* Loans and holds end without anybody writing. */
static int is_timed TS_HOT;
static int ends_by_itself(void) {
    for (uint32_t i = 0; i < current.head.cards; i++)
        if (current.card[i].mode == TESSERA_CORES_ELASTIC && current.card[i].lent_permille)
            return 1;
    return (current.flags & (TESSERA_HOLD_LAUNCHES | TESSERA_SUSPEND)) != 0;
}

static void take_flags(void) {
    ts_set(is_timed, ends_by_itself());
    uint32_t now = current.flags & ~(over(TESSERA_HOLD_LAUNCHES, current.hold_until_ns) |
                                     over(TESSERA_SUSPEND, current.suspend_until_ns));
    if (closed)
        now |= TESSERA_HOLD_LAUNCHES;
    __atomic_store_n(&flags, now, __ATOMIC_RELAXED);
}

static void close_or_open(int valid) {
    if (valid)
        ts_log_level = current.log_level;
    if (closed == !valid)
        return;
    closed = !valid;
    if (closed) {
        ts_log(TS_LOG_ERROR, "no valid limits in %s%s: nothing may be taken", path, mounted ? " on a read-only mount" : "");
        ts_gap(TESSERA_GAP_LIMITS);
    }
}

/* The file as it was when it was last read and valid. What was written just before may have been written
 * again since, with the same stamp: it is looked at again. */
#define SETTLED (20 * TS_MS)
static struct stat seen;
static uint64_t stamp TS_HOT; /* of seen; 0: it is to be read again */
static ts_lock looking; /* over both: who finds it taken goes on with what it has */

static uint64_t stamp_of(const struct stat *file) {
    const uint64_t of[] = {file->st_ino, file->st_dev, (uint64_t)file->st_size, (uint64_t)file->st_mtim.tv_sec,
                           (uint64_t)file->st_mtim.tv_nsec};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sizeof of / sizeof *of; i++)
        sum = (sum ^ of[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return file->st_ino ? sum | 1 : 0;
}

static int is_unchanged(int *settled) {
    struct stat now;
    if (stat(path, &now) < 0)
        memset(&now, 0, sizeof now);
    int same = stamp && now.st_ino == seen.st_ino && now.st_dev == seen.st_dev && now.st_size == seen.st_size &&
               now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec;
    uint64_t written = (uint64_t)now.st_mtim.tv_sec * TS_S + (uint64_t)now.st_mtim.tv_nsec, real = ts_real();
    *settled = now.st_ino && real > written && real - written > SETTLED;
    seen = now;
    ts_set(stamp, stamp_of(&now));
    return same;
}

/* All processes of a container look at one file: whoever has seen what another sees just now need not look.
 * Each does all the same now and then, for the container can write these words. */
#define LOOKED_NS (10 * TS_MS)
#define ALONE_NS TS_S
static uint64_t looked TS_HOT; /* when this process did */

TS_OFTEN static int another_looked(uint64_t now) {
    const struct tessera_usage *usage = ts_usage();
    return usage && !ts_get(closed) && ts_get(stamp) && now - ts_get(looked) < ALONE_NS &&
           now - ts_get(usage->limits_looked_ns) < LOOKED_NS && ts_get(usage->limits_stamp) == ts_get(stamp);
}

static int look(int anyway, int *settled) {
    if (!anyway && another_looked(ts_passing())) {
        *settled = 1;
        return 1;
    }
    int same = is_unchanged(settled);
    ts_set(looked, ts_passing());
    struct tessera_usage *usage = ts_usage();
    if (usage) {
        ts_set(usage->limits_stamp, stamp);
        ts_set(usage->limits_looked_ns, looked);
    }
    return same;
}

static int read_now(struct tessera_limits *out) {
    return mounted ? read_mounted(out) : ts_limits_read(path, out);
}

/* A file that is there and not whole is waited for: the agent may have been stopped while it wrote. */
static int read_first(void) {
    int r = read_now(&current);
    for (int i = 0; i < PATIENCE && r < 0; i++) {
        usleep(10000);
        r = read_now(&current);
    }
    if (r != 1)
        memset(&current, 0, sizeof current);
    return r;
}

/* Where the agent mounted the library, no variable stands in for its file. */
enum ts_source ts_limits_start(void) {
    mounted = ts_mount_required();
    choose_paths();
    int r = read_first();
    source = TS_LIMITS_FILE;
    if (r != 1 && !mounted && ts_environment(&current, ts_environment_get))
        source = TS_LIMITS_ENVIRONMENT;
    else if (r == 0 && !mounted)
        source = TS_NO_LIMITS;
    close_or_open(r == 1 || source != TS_LIMITS_FILE);
    take_flags();
    if (r < 0) {
        ts_log(TS_LOG_ERROR, "limits file %s is not valid", path);
        ts_gap(TESSERA_GAP_LIMITS);
    }
    return source;
}

enum ts_source ts_limits_source(void) {
    return source;
}

const char *ts_limits_usage_path(void) {
    return usage_path;
}

uint32_t ts_limits_flags(void) {
    return __atomic_load_n(&flags, __ATOMIC_RELAXED);
}

/* The container's n-th card, for variables that count cards. */
static const struct tessera_card_limit *entry_of(const struct ts_card *card) {
    if (source == TS_LIMITS_ENVIRONMENT)
        return &current.card[card->ordinal >= 0 ? (uint32_t)card->ordinal % TESSERA_CARDS : card->index];
    for (uint32_t i = 0; i < current.head.cards; i++)
        if (ts_uuid_same((const char *)current.card[i].uuid, card->uuid))
            return &current.card[i];
    return NULL;
}

#define LEAST_RATE 10 /* permille: what is left may be nothing, and a launch must come to an end */

/* Best effort: what the others leave, as the agent last said, and next to nothing when nobody says. */
static uint32_t rest_of(const struct tessera_card_limit *entry) {
    int is_lent = entry->mode == TESSERA_CORES_ELASTIC && ts_real() < entry->lent_until_ns;
    uint32_t lent = is_lent ? entry->lent_permille : 0;
    uint32_t rate = entry->cores_permille + (lent < 1000 ? lent : 1000);
    return rate < LEAST_RATE ? LEAST_RATE : rate < 1000 ? rate : 1000;
}

static uint32_t rate_of(const struct tessera_card_limit *entry) {
    uint32_t rate = entry->cores_permille;
    if ((entry->flags & TESSERA_CARD_REST) && entry->mode != TESSERA_CORES_OFF)
        return rest_of(entry);
    if (entry->mode == TESSERA_CORES_OFF || rate == 0 || rate >= 1000)
        return 1000;
    if (entry->mode == TESSERA_CORES_ELASTIC && entry->lent_permille && ts_real() < entry->lent_until_ns)
        rate += entry->lent_permille < 1000 ? entry->lent_permille : 1000;
    return rate < 1000 ? rate : 1000;
}

/* Every process does: what is there already is not written, and stays in the others' caches. */
static void publish(uint64_t *at, uint64_t value) {
    if (ts_get(*at) != value)
        ts_set(*at, value);
}

void ts_limits_apply(struct ts_card *card) {
    ts_lock_take(&guard);
    ts_point("limits: locked");
    const struct tessera_card_limit *entry = closed ? NULL : entry_of(card);
    uint64_t memory = entry ? entry->memory_bytes : 0;
    uint32_t rate = entry ? rate_of(entry) : 1000;
    __atomic_store_n(&card->granted, entry != NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&card->limit_bytes, memory, __ATOMIC_RELAXED);
    __atomic_store_n(&card->resident_bytes, entry ? entry->resident_bytes : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&card->rate_permille, rate, __ATOMIC_RELAXED);
    __atomic_store_n(&card->flags, entry ? entry->flags : 0, __ATOMIC_RELAXED);
    publish(&card->shared->limit_bytes, memory);
    publish(&card->shared->generation, current.generation);
    uint32_t before = ts_get(card->shared->cores_permille);
    if (before != rate && __atomic_compare_exchange_n(&card->shared->cores_permille, &before, rate, 0, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED))
        ts_measured_rate(card, before, rate);
    if (entry)
        ts_measured(card, entry);
    else
        ts_log_once(TS_LOG_WARNING, "%s is not in the limits file: nothing may be taken of it", card->uuid);
    ts_lock_give(&guard);
    ts_lease_look(card);
    ts_limits_compare(card);
}

void ts_limits_compare(struct ts_card *card) {
    uint64_t limit = ts_get(card->limit_bytes);
    uint32_t over = limit && ts_charged(card) > limit ? TESSERA_GAP_OVER : 0, gaps = ts_get(card->mine->gaps);
    if ((gaps & TESSERA_GAP_OVER) != over)
        ts_set(card->mine->gaps, gaps ^ TESSERA_GAP_OVER);
}

/* All else of the same file can wait. */
#define APPLY_NS (500 * TS_MS)
static uint64_t applied TS_HOT;

__attribute__((noinline)) static void refresh(int anyway, uint64_t now) {
    struct tessera_limits fresh;
    int settled;
    if (!ts_try_lock(&looking))
        return;
    int read = look(anyway, &settled) ? 2 : read_now(&fresh);
    ts_lock_take(&guard);
    if (read != 2 && (read != 1 || !settled))
        ts_set(stamp, 0);
    if (read == 1) {
        current = fresh;
        ts_set(source, TS_LIMITS_FILE);
        ts_log_level = fresh.log_level;
    }
    if (read == 1 || (mounted && read == 0))
        close_or_open(read == 1);
    take_flags();
    int due = read != 2 || ts_get(is_timed) || now - applied >= APPLY_NS;
    if (due)
        ts_set(applied, now);
    ts_lock_give(&guard);
    ts_lock_give(&looking);
    for (uint32_t i = 0; due && i < ts_card_count(); i++)
        if (ts_cards[i].shared)
            ts_limits_apply(&ts_cards[i]);
}

TS_OFTEN void ts_limits_refresh(int anyway) {
    uint64_t now = ts_passing();
    int is_due = anyway || ts_get(is_timed) || now - ts_get(applied) >= APPLY_NS || !another_looked(now);
    if (is_due && ts_get(source) != TS_NO_LIMITS)
        refresh(anyway, now);
}

void ts_limits_reset(void) {
    guard.word = looking.word = 0;
}
