/* tessera-hook-info: what the library sees, for support. Reads files only; needs no driver.
 *   tessera-hook-info                     limits and usage at their fixed places (or TESSERA_LIMITS, TESSERA_USAGE)
 *   tessera-hook-info --limits F --usage F
 *   tessera-hook-info --layout            the layouts: name offset size
 *   tessera-hook-info --version */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layout.h"
#include "mount.h"
#include "tessera/limits.h"
#include "tessera/usage.h"
#include "version.h"

#define MIB(n) ((unsigned long long)(n) >> 20)
#define MS(n) ((unsigned long long)(n) / 1000000)

static int read_whole(const char *path, void *into, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : pread(fd, into, size, 0);
    if (fd >= 0)
        close(fd);
    return got == (ssize_t)size;
}

/* Where the agent mounts the file, the library takes it from a read-only mount alone. */
static const char *state_of(const char *path, int good) {
    if (!good)
        return "NOT VALID";
    int fd = strcmp(path, TESSERA_LIMITS_PATH) ? -2 : ts_mount_open(path);
    if (fd >= 0)
        close(fd);
    return fd == -1 ? "NOT MOUNTED READ-ONLY: the library takes none of it" : "valid";
}

static void show_limits(const char *path) {
    static struct tessera_limits limits;
    static const char *const modes[] = {"off", "hard", "elastic", "?"};
    if (!read_whole(path, &limits, sizeof limits)) {
        printf("limits %s: none\n", path);
        return;
    }
    int good = limits.head.magic == TESSERA_LIMITS_MAGIC && limits.head.layout == TESSERA_LAYOUT &&
               limits.head.size == TESSERA_LIMITS_SIZE && limits.head.cards <= TESSERA_CARDS;
    printf("limits %s: %s, sequence %u, generation %llu, flags 0x%x, for %.128s\n", path, state_of(path, good),
           limits.head.sequence, (unsigned long long)limits.generation, limits.flags, (const char *)limits.container);
    for (uint32_t i = 0; good && i < limits.head.cards; i++) {
        const struct tessera_card_limit *card = &limits.card[i];
        printf("  card %u %.64s: memory %llu MiB, cores %u permille %s, lent %u, flags 0x%x\n", card->index,
               (const char *)card->uuid, MIB(card->memory_bytes), card->cores_permille,
               modes[card->mode < 3 ? card->mode : 3], card->lent_permille, card->flags);
    }
}

static void show_gaps(uint32_t gaps) {
    static const char *const names[] = {"an unknown symbol", "limits file not valid", "counts alone",
                                        "no events", "over its limit"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (gaps & (1u << i))
            printf(" [%s]", names[i]);
}

static void show_slots(const struct tessera_usage *usage, uint32_t card) {
    static const char *const kinds[] = {"device", "array", "virtual", "pool", "managed", "graph", "context", "other"};
    for (uint32_t i = 0; i < TESSERA_SLOTS; i++) {
        const struct tessera_slot *slot = &usage->slot[i];
        if (slot->state != TESSERA_SLOT_LIVE || slot->card != card)
            continue;
        printf("    slot %u: pid %d %.16s, version 0x%06x:", i, slot->pid, (const char *)slot->command, slot->version);
        for (int kind = 0; kind < TESSERA_KINDS; kind++)
            if (slot->bytes[kind])
                printf(" %s %llu MiB", kinds[kind], MIB(slot->bytes[kind]));
        printf(", overhead %llu MiB, %llu launches, GPU %llu ms, throttled %llu ms, %llu refused", MIB(slot->overhead_bytes),
               (unsigned long long)slot->launches, MS(slot->gpu_ns), MS(slot->throttled_ns),
               (unsigned long long)slot->denials);
        show_gaps(slot->gaps);
        puts("");
    }
}

static void show_over_time(const struct tessera_usage *usage, uint32_t i) {
    const struct tessera_card_usage *card = &usage->card[i];
    printf("    %llu MiB allocated in all, at most %llu MiB held in the hour %llu", MIB(card->allocated_bytes),
           MIB(card->hour_peak_bytes), (unsigned long long)card->peak_hour);
    for (unsigned t = 0; t < TESSERA_TIMES; t++) {
        unsigned is_last = t == TESSERA_TIMES - 1;
        unsigned long long us = (1ull << (TESSERA_TIMES_SHIFT + t - is_last)) / 1000;
        if (usage->kernel_times[i][t])
            printf("; %u launches of %s %llu us", usage->kernel_times[i][t], is_last ? "at least" : "less than", us);
    }
    puts("");
}

static void show_usage(const char *path) {
    static struct tessera_usage usage;
    if (!read_whole(path, &usage, sizeof usage) || usage.head.magic != TESSERA_USAGE_MAGIC) {
        printf("usage %s: none\n", path);
        return;
    }
    printf("usage %s: layout %u, built by version 0x%06x, rebuilt %u times\n", path, usage.head.layout, usage.version,
           usage.head.sequence);
    for (uint32_t i = 0; i < TESSERA_CARDS; i++) {
        const struct tessera_card_usage *card = &usage.card[i];
        if (!card->used)
            continue;
        printf("  card %.64s: %llu of %llu MiB charged (peak %llu), %llu refused, %llu failed and %llu waited for others; GPU %llu ms, %llu launches, "
               "throttled %llu ms, cores %u permille, gain %u, bucket %lld us\n",
               (const char *)card->uuid, MIB(card->charged_bytes), MIB(card->limit_bytes), MIB(card->peak_bytes),
               (unsigned long long)card->denials, (unsigned long long)card->failed_for_others,
               (unsigned long long)card->waited_for_others, MS(card->gpu_ns), (unsigned long long)card->launches,
               MS(card->throttled_ns), card->cores_permille, card->gain_permille, (long long)card->tokens_ns / 1000);
        show_over_time(&usage, i);
        show_slots(&usage, i);
    }
}

static const char *or_fixed(const char *fixed, const char *variable) {
    const char *other = getenv(variable);
    return access(TESSERA_LIMITS_PATH, F_OK) != 0 && other ? other : fixed;
}

int main(int argc, char **argv) {
    const char *limits = or_fixed(TESSERA_LIMITS_PATH, "TESSERA_LIMITS");
    const char *usage = or_fixed(TESSERA_USAGE_PATH, "TESSERA_USAGE");
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--layout")) {
            ts_layout_print();
            return 0;
        }
        if (!strcmp(argv[i], "--version")) {
            puts(TESSERA_VERSION_TEXT);
            return 0;
        }
        if (!strcmp(argv[i], "--limits") && i + 1 < argc) {
            limits = argv[++i];
        } else if (!strcmp(argv[i], "--usage") && i + 1 < argc) {
            usage = argv[++i];
        } else {
            fprintf(stderr, "usage: %s [--limits FILE] [--usage FILE] | --layout | --version\n", argv[0]);
            return 2;
        }
    }
    const char *preload = getenv("LD_PRELOAD");
    printf("version %s, preload %s, /etc/ld.so.preload %s\n", TESSERA_VERSION_TEXT, preload ? preload : "(unset)",
           access("/etc/ld.so.preload", R_OK) == 0 ? "there" : "absent");
    show_limits(limits);
    show_usage(usage);
    return 0;
}
