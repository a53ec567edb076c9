#include "route.h"

#include <dlfcn.h>
#include <string.h>

#include "start.h"

extern void *dlsym(void *handle, const char *name); /* dlsym.S */

#define CUDA_ROUTE(symbol) {#symbol, (void *)&symbol, (void **)&real.symbol, 0},
#define NVML_ROUTE(symbol) {#symbol, (void *)&symbol, (void **)&real.symbol, 1},

__extension__ const struct ts_route ts_routes[] = {
#define HOOK CUDA_ROUTE
#define NVML_HOOK NVML_ROUTE
#include "hooks.def"
};
const size_t ts_route_count = sizeof ts_routes / sizeof *ts_routes;

static struct {
    void *driver, *ours;
} by_address[sizeof ts_routes / sizeof *ts_routes];
static size_t indexed;

/* Sorted by the driver's address; of names that share one, the first stays: same code, same hook. */
void ts_route_index(void) {
    indexed = 0;
    for (size_t i = 0; i < ts_route_count; i++) {
        void *driver = *ts_routes[i].real;
        if (!driver || ts_routes[i].nvml)
            continue;
        size_t at = indexed;
        while (at > 0 && by_address[at - 1].driver > driver)
            at--;
        if (at > 0 && by_address[at - 1].driver == driver)
            continue;
        memmove(&by_address[at + 1], &by_address[at], (indexed - at) * sizeof *by_address);
        by_address[at].driver = driver;
        by_address[at].ours = ts_routes[i].ours;
        indexed++;
    }
}

void *ts_route_address(void *driver) {
    size_t low = 0, high = indexed;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (by_address[middle].driver == driver)
            return by_address[middle].ours;
        if (by_address[middle].driver < driver)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

int ts_route_family(const char *base) {
    size_t length = strlen(base);
    for (size_t i = 0; i < ts_route_count; i++)
        if (!strncmp(ts_routes[i].name, base, length) &&
            (!ts_routes[i].name[length] || !strncmp(ts_routes[i].name + length, "_v", 2) ||
             !strncmp(ts_routes[i].name + length, "_pt", 3)))
            return 1;
    return 0;
}

static int upper(char c) {
    return c >= 'A' && c <= 'Z';
}

/* libc's own may be wrapped by a sanitizer that looks names up before it is ready to compare any. */
static int same(const char *a, const char *b) {
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

static const struct ts_route *by_name(const char *name) {
    int cuda = name[0] == 'c' && name[1] == 'u' && upper(name[2]);
    int nvml = name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l' && upper(name[4]);
    if (!cuda && !nvml)
        return NULL;
    for (size_t i = 0; i < ts_route_count; i++)
        if (same(ts_routes[i].name, name))
            return &ts_routes[i];
    return NULL;
}

/* What the caller would have got without us: our own names are skipped over. */
static void *find_without_us(void *handle, const struct ts_route *route) {
    void *found = handle == RTLD_DEFAULT || handle == RTLD_NEXT ? route->ours : ts_real_dlsym(handle, route->name);
    return found == route->ours ? ts_real_dlsym(RTLD_NEXT, route->name) : found;
}

void *ts_dlsym_decide(void *handle, const char *name, void **result) {
    void *libc = ts_real_dlsym_address();
    if (!name)
        return libc;
    const struct ts_route *route = by_name(name);
    if (!route) {
        if (!same(name, "dlsym"))
            return libc;
        void *found = ts_real_dlsym(handle, name);
        *result = found == libc ? (void *)(uintptr_t)&dlsym : found;
        return NULL;
    }
    void *found = find_without_us(handle, route);
    *result = found;
    if (!found)
        return NULL;
    if (route->nvml)
        ts_start_nvml();
    else
        ts_start_cuda();
    if (*route->real == found)
        *result = route->ours;
    return NULL;
}
