/* tessera-limits: writes a limits file as the agent does, for tests and trials.
 *   tessera-limits FILE [container=NAME] [flags=N] [hold_ms=N] [log=LEVEL] {card=UUID [memory=MIB] [bytes=N] [resident=MIB]
 *       [cores=PERCENT] [permille=N] [mode=off|hard|elastic] [lent=PERMILLE] [lent_ms=N] [card_flags=N]
 *       [measured=NS measured_usage=NS]}...
 * An existing file is changed in place, under its sequence number, as a running program sees it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tessera/limits.h"

static uint64_t real_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int set_card(struct tessera_card_limit *card, const char *key, const char *value) {
    uint64_t n = strtoull(value, NULL, 0);
    if (!strcmp(key, "memory"))
        card->memory_bytes = n << 20;
    else if (!strcmp(key, "bytes"))
        card->memory_bytes = n;
    else if (!strcmp(key, "resident"))
        card->resident_bytes = n << 20;
    else if (!strcmp(key, "cores") || !strcmp(key, "permille")) {
        card->cores_permille = (uint32_t)(key[0] == 'c' ? n * 10 : n);
        card->mode = card->mode ? card->mode : TESSERA_CORES_HARD;
    } else if (!strcmp(key, "mode"))
        card->mode = !strcmp(value, "off") ? TESSERA_CORES_OFF
                                           : !strcmp(value, "hard") ? TESSERA_CORES_HARD : TESSERA_CORES_ELASTIC;
    else if (!strcmp(key, "lent"))
        card->lent_permille = (uint32_t)n;
    else if (!strcmp(key, "lent_ms"))
        card->lent_until_ns = real_ns() + n * 1000000;
    else if (!strcmp(key, "card_flags"))
        card->flags = (uint32_t)n;
    else if (!strcmp(key, "measured")) {
        card->measured_ns = n;
        card->measured_at_ns = real_ns();
    } else if (!strcmp(key, "measured_usage"))
        card->measured_usage_ns = n;
    else
        return 0;
    return 1;
}

static int fill(struct tessera_limits *limits, int argc, char **argv) {
    struct tessera_card_limit *card = NULL;
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            return 0;
        *value++ = 0;
        if (!strcmp(argv[i], "card") && limits->head.cards < TESSERA_CARDS) {
            card = &limits->card[limits->head.cards];
            card->index = limits->head.cards++;
            memcpy(card->uuid, value, strnlen(value, TESSERA_UUID_BYTES - 1));
        } else if (!strcmp(argv[i], "container"))
            memcpy(limits->container, value, strnlen(value, sizeof limits->container - 1));
        else if (!strcmp(argv[i], "flags"))
            limits->flags = (uint32_t)strtoul(value, NULL, 0);
        else if (!strcmp(argv[i], "hold_ms"))
            limits->hold_until_ns = real_ns() + strtoull(value, NULL, 0) * 1000000;
        else if (!strcmp(argv[i], "suspend_ms"))
            limits->suspend_until_ns = real_ns() + strtoull(value, NULL, 0) * 1000000;
        else if (!strcmp(argv[i], "log"))
            limits->log_level = (uint32_t)strtoul(value, NULL, 0);
        else if (!card || !set_card(card, argv[i], value))
            return 0;
    }
    return 1;
}

static int write_at(int fd, const void *from, size_t size, off_t at) {
    return pwrite(fd, from, size, at) == (ssize_t)size;
}

int main(int argc, char **argv) {
    static struct tessera_limits limits;
    struct tessera_head old = {0};
    if (argc < 2 || !fill(&limits, argc, argv)) {
        fprintf(stderr, "usage: %s FILE [container=NAME] [flags=N] {card=UUID [memory=MIB] [cores=PERCENT] ...}...\n", argv[0]);
        return 2;
    }
    int fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        perror(argv[1]);
        return 1;
    }
    if (pread(fd, &old, sizeof old, 0) != (ssize_t)sizeof old)
        old.sequence = 0;
    uint32_t writing = (old.sequence | 1), done = writing + 1;
    limits.head.layout = TESSERA_LAYOUT;
    limits.head.size = TESSERA_LIMITS_SIZE;
    limits.head.written_ns = real_ns();
    limits.head.magic = TESSERA_LIMITS_MAGIC;
    limits.head.sequence = writing;
    limits.generation = done / 2;
    int good = write_at(fd, &writing, sizeof writing, offsetof(struct tessera_head, sequence)) &&
               write_at(fd, &limits, sizeof limits, 0) &&
               write_at(fd, &done, sizeof done, offsetof(struct tessera_head, sequence));
    if (!good)
        perror(argv[1]);
    close(fd);
    return !good;
}
