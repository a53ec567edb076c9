#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenants.h"

#define MS 1000000ull
#define LOOKS 2 /* of the agent, a second */
#define LEAP (2000000 * MS) /* told with the first measurement of an agent that was started again */

static unsigned processes_of(const struct tenant *tenant) {
    return tenant->processes ? tenant->processes : 1;
}

static void path_of(int i, const char *file, char path[512]) {
    snprintf(path, 512, "%s/tenant%d/%s", dir(), i, file);
}

struct tessera_card_usage tenant_usage(int i) {
    char path[512];
    struct tessera_card_usage card = {0};
    path_of(i, "usage", path);
    int fd = open(path, O_RDONLY);
    if (fd >= 0) {
        if (pread(fd, &card, sizeof card, offsetof(struct tessera_usage, card)) != sizeof card)
            memset(&card, 0, sizeof card);
        close(fd);
    }
    return card;
}

/* What the agent writes: a new file over the old one. */
void tenant_limits(int i, const struct tenant *tenant, uint64_t measured) {
    static uint64_t written;
    uint64_t usage = measured ? tenant_usage(i).raw_ns : 0;
    struct tessera_limits limits = {.head = {.layout = TESSERA_LAYOUT, .size = TESSERA_LIMITS_SIZE, .cards = 1}};
    struct tessera_card_limit *card = &limits.card[0];
    char path[512], fresh[512], uuid[64] = "";
    uuid_of(0, uuid);
    memcpy(card->uuid, uuid, sizeof card->uuid);
    card->memory_bytes = (tenant->mib ? tenant->mib : 2000) * MIB;
    card->resident_bytes = tenant->resident_mib * MIB;
    card->flags = (tenant->resident_mib ? TESSERA_CARD_OVERSUBSCRIBE : 0) | (tenant->rest ? TESSERA_CARD_REST : 0);
    card->cores_permille = tenant->cores * 10;
    card->mode = tenant->rest ? TESSERA_CORES_ELASTIC : TESSERA_CORES_HARD;
    card->lent_permille = tenant->lent;
    card->lent_until_ns = UINT64_MAX;
    card->measured_ns = measured;
    card->measured_usage_ns = usage;
    card->measured_at_ns = usage ? sim_now() + ++written : 0;
    limits.head.magic = TESSERA_LIMITS_MAGIC;
    path_of(i, "limits", path);
    path_of(i, "fresh", fresh);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    EQUAL(write(fd, &limits, sizeof limits), sizeof limits);
    close(fd);
    EQUAL(rename(fresh, path), 0);
}

uint64_t tenant_busy(const struct tenant *tenant) {
    uint64_t sum = 0;
    for (unsigned p = 0; p < processes_of(tenant); p++)
        sum += sim_busy(tenant->pid[p]);
    return sum;
}

static void work(int i, const struct tenant *tenant, uint64_t seconds) {
    char path[512];
    path_of(i, "limits", path);
    setenv("TESSERA_LIMITS", path, 1);
    path_of(i, "usage", path);
    setenv("TESSERA_USAGE", path, 1);
    begin();
    if (tenant->mib)
        EQUAL(allocate(tenant->mib / 2, NULL) + allocate(tenant->mib / 2, NULL), 0);
    CUfunction f = kernel(tenant->kernel_ns);
    PFN_cuLaunchKernel launch = CU(cuLaunchKernel);
    PFN_cuStreamSynchronize synchronize = CU(cuStreamSynchronize);
    ((void (*)(void))(uintptr_t)driver_get("cuSimJoin"))();
    uint64_t start = sim_now(), end = start + seconds * 1000 * MS, from = start + tenant->from_ms * MS;
    uint64_t until = tenant->until_ms ? start + tenant->until_ms * MS : end;
    for (uint64_t now = start; now < end; now = sim_now())
        if (tenant->idle || now < from || now >= until) {
            sim_sleep(now < from && from - now < 100 * MS ? from - now : 100 * MS);
        } else {
            EQUAL(launch(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
            if (!tenant->async)
                EQUAL(synchronize(NULL), 0);
        }
}

/* An agent measures from its first look on: what ran while there was none is told by nobody. */
static void tell(int i, const struct tenant *tenant, uint64_t busy, int64_t before_half) {
    static uint64_t told[TENANTS], unseen[TENANTS];
    if (before_half > 0 && before_half <= (int64_t)tenant->away * LOOKS)
        return;
    if (tenant->away && before_half == 0) {
        unseen[i] = busy - told[i] - LEAP;
        return;
    }
    told[i] = busy - unseen[i];
    tenant_limits(i, tenant, told[i]);
}

static void watch(struct tenant *tenants, int count, uint64_t seconds, int blind) {
    uint64_t half[TENANTS] = {0}, last[TENANTS] = {0}, at_half = 0, at_last = 0;
    for (uint64_t step = 0; step < seconds * LOOKS; step++) {
        sim_sleep(1000 * MS / LOOKS);
        uint64_t now = sim_now();
        int second = at_half && (step - seconds * LOOKS / 2) % LOOKS == 0;
        for (int i = 0; i < count; i++) {
            uint64_t busy = tenant_busy(&tenants[i]);
            if (step == seconds * LOOKS / 2) {
                half[i] = last[i] = busy;
                tenants[i].low = 1e9;
                tenants[i].high = 0;
            } else if (second) {
                double share = 100.0 * (double)(busy - last[i]) / (double)(now - at_last);
                tenants[i].low = share < tenants[i].low ? share : tenants[i].low;
                tenants[i].high = share > tenants[i].high ? share : tenants[i].high;
                last[i] = busy;
            }
            if (at_half)
                tenants[i].share = 100.0 * (double)(busy - half[i]) / (double)(now - at_half);
            if (!blind)
                tell(i, &tenants[i], busy, (int64_t)(seconds * LOOKS / 2) - (int64_t)step);
        }
        if (step == seconds * LOOKS / 2)
            at_half = at_last = now;
        else if (second)
            at_last = now;
    }
}

void tenants_start(struct tenant *tenants, int count, uint64_t seconds) {
    char folder[512];
    for (int i = 0; i < count; i++) {
        path_of(i, "", folder);
        EQUAL(mkdir(folder, 0777), 0);
        tenant_limits(i, &tenants[i], 0);
        for (unsigned p = 0; p < processes_of(&tenants[i]); p++) {
            tenants[i].pid[p] = fork();
            if (tenants[i].pid[p] == 0) {
                work(i, &tenants[i], seconds + 1);
                _exit(0);
            }
        }
    }
    ((void (*)(void))(uintptr_t)driver_get("cuSimJoin"))();
}

void tenants_end(const struct tenant *tenants, int count) {
    ((void (*)(void))(uintptr_t)driver_get("cuSimLeave"))();
    for (int i = 0; i < count; i++)
        for (unsigned p = 0; p < processes_of(&tenants[i]); p++)
            EQUAL(wait_for(tenants[i].pid[p]), 0);
}

void tenants_run(struct tenant *tenants, int count, uint64_t seconds, int blind) {
    tenants_start(tenants, count, seconds);
    watch(tenants, count, seconds, blind);
    tenants_end(tenants, count);
}
