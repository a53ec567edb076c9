#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#include "tenants.h"

#define MS 1000000ull
static void folder_of(int i, char path[512]) {
    snprintf(path, 512, "%s/tenant%d", dir(), i);
}

static void write_limits(int i, const struct tenant *tenant, const char *more) {
    char folder[512], uuid[64], command[1536];
    folder_of(i, folder);
    uuid_of(0, uuid);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s/tessera-limits %s/limits card=%s memory=2000 cores=%u %s",
             getenv("TEST_BUILD"), folder, uuid, tenant->cores, more);
    EQUAL(system(command), 0);
}

static uint64_t raw_of(int i) {
    char path[600], folder[512];
    uint64_t raw = 0;
    folder_of(i, folder);
    snprintf(path, sizeof path, "%s/usage", folder);
    int fd = open(path, O_RDONLY);
    if (fd >= 0) {
        if (pread(fd, &raw, 8, offsetof(struct tessera_usage, card) + offsetof(struct tessera_card_usage, raw_ns)) != 8)
            raw = 0;
        close(fd);
    }
    return raw;
}

static void work(int i, struct tenant *tenant, uint64_t seconds) {
    char folder[512], path[600];
    folder_of(i, folder);
    snprintf(path, sizeof path, "%s/limits", folder);
    setenv("TESSERA_LIMITS", path, 1);
    snprintf(path, sizeof path, "%s/usage", folder);
    setenv("TESSERA_USAGE", path, 1);
    begin();
    CUfunction f = kernel(tenant->kernel_ns);
    ((void (*)(void))(uintptr_t)driver_get("cuSimJoin"))();
    uint64_t end = sim_now() + seconds * 1000 * MS;
    while (sim_now() < end)
        if (tenant->idle) {
            sim_sleep(100 * MS);
        } else {
            EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
            EQUAL(CU(cuStreamSynchronize)(NULL), 0);
        }
}

/* The agent measures every half second; shares are taken over the second half of the time. */
void tenants_run(struct tenant *tenants, int count, uint64_t seconds) {
    char folder[512], more[128];
    uint64_t half[TENANTS] = {0}, at_half = 0;
    for (int i = 0; i < count; i++) {
        folder_of(i, folder);
        EQUAL(mkdir(folder, 0777), 0);
        write_limits(i, &tenants[i], "");
        tenants[i].pid = fork();
        if (tenants[i].pid == 0) {
            work(i, &tenants[i], seconds + 1);
            _exit(0);
        }
    }
    void (*nap)(uint64_t) = (void (*)(uint64_t))(uintptr_t)driver_get("cuSimSleep");
    ((void (*)(void))(uintptr_t)driver_get("cuSimJoin"))();
    for (uint64_t step = 0; step < seconds * 2; step++) {
        nap(500 * MS);
        if (step == seconds) {
            at_half = sim_now();
            for (int i = 0; i < count; i++)
                half[i] = sim_busy(tenants[i].pid);
        }
        for (int i = 0; i < count; i++) {
            snprintf(more, sizeof more, "measured=%llu measured_usage=%llu", (unsigned long long)sim_busy(tenants[i].pid),
                     (unsigned long long)raw_of(i));
            write_limits(i, &tenants[i], more);
        }
    }
    uint64_t now = sim_now();
    for (int i = 0; i < count; i++)
        tenants[i].share = 100.0 * (double)(sim_busy(tenants[i].pid) - half[i]) / (double)(now - at_half);
    ((void (*)(void))(uintptr_t)driver_get("cuSimLeave"))();
    for (int i = 0; i < count; i++)
        EQUAL(wait_for(tenants[i].pid), 0);
}
