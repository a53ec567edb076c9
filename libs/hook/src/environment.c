/* HAMi-core's variables, for a container that has no limits file: the same grammar, so that a pod
 * written for HAMi means the same here. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limits.h"

/* A number as strtoul reads it with base 0, and one unit letter at the very end; other tails are
 * ignored, and what cannot be read, or would overflow, means no limit. */
static uint64_t parse(const char *text, int units) {
    char *end;
    if (!text || !*text)
        return 0;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno || end == text || *text == '-')
        return 0;
    int shift = 0;
    if (units)
        switch (text[strlen(text) - 1]) {
        case 'g': case 'G': shift = 30; break;
        case 'm': case 'M': shift = 20; break;
        case 'k': case 'K': shift = 10; break;
        default: break;
        }
    return value > (UINT64_MAX >> shift) ? 0 : (uint64_t)value << shift;
}

static const char *indexed(ts_getenv get, const char *name, unsigned i) {
    char full[64];
    snprintf(full, sizeof full, "%s_%u", name, i);
    const char *text = get(full);
    return text && *text ? text : get(name);
}

static uint32_t cores_of(const char *text) {
    uint64_t percent = parse(text, 1);
    return percent == 0 || percent >= 100 ? 1000 : (uint32_t)percent * 10;
}

static int switched_off(ts_getenv get) {
    const char *policy = get("GPU_CORE_UTILIZATION_POLICY");
    return policy && (!strcmp(policy, "DISABLE") || !strcmp(policy, "disable"));
}

int ts_environment(struct tessera_limits *out, ts_getenv get) {
    int any = 0;
    memset(out, 0, sizeof *out);
    out->head.layout = TESSERA_LAYOUT;
    out->head.size = TESSERA_LIMITS_SIZE;
    out->head.cards = TESSERA_CARDS;
    out->head.magic = TESSERA_LIMITS_MAGIC;
    const char *priority = get("CUDA_TASK_PRIORITY");
    for (unsigned i = 0; i < TESSERA_CARDS; i++) {
        struct tessera_card_limit *card = &out->card[i];
        card->index = i;
        card->memory_bytes = parse(indexed(get, "CUDA_DEVICE_MEMORY_LIMIT", i), 1);
        card->cores_permille = switched_off(get) ? 1000 : cores_of(indexed(get, "CUDA_DEVICE_SM_LIMIT", i));
        card->mode = card->cores_permille < 1000 ? TESSERA_CORES_HARD : TESSERA_CORES_OFF;
        card->priority = priority ? atoi(priority) : 1;
        const char *over = get("CUDA_OVERSUBSCRIBE");
        if (over && (!strcmp(over, "true") || !strcmp(over, "1")))
            card->flags |= TESSERA_CARD_OVERSUBSCRIBE;
        any |= card->memory_bytes != 0 || card->cores_permille < 1000;
    }
    return any;
}

/* A variable that a child removed is still in process 1: unsetting it must not lift a limit. */
const char *ts_environment_get(const char *name) {
    static char text[1 << 16];
    static ssize_t length = -1;
    const char *own = getenv(name);
    if (own)
        return own;
    if (length < 0) {
        int fd = open("/proc/1/environ", O_RDONLY | O_CLOEXEC);
        length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        length = length < 0 ? 0 : length;
        text[length] = 0;
        if (fd >= 0)
            close(fd);
    }
    size_t wanted = strlen(name);
    for (const char *at = text; at < text + length; at += strlen(at) + 1)
        if (!strncmp(at, name, wanted) && at[wanted] == '=')
            return at + wanted + 1;
    return NULL;
}
