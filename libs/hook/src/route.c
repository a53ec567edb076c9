#include "route.h"

#include <dlfcn.h>
#include <string.h>

#include "points.h"
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

/* All versions of all functions that there were when this was written, twins apart. */
#define KNOWN_VERSION 13050
static const struct version {
    const char *base, *symbol;
    int since, twin;
} versions[] = {
#define CUDA_FN(base, symbol, since, params) {#base, #symbol, since, 0},
#define CUDA_FN_PTSZ(base, symbol, since, twin_since, params, args) {#base, #symbol, since, 0}, {#base, #symbol "_ptsz", twin_since, 1},
#define CUDA_FN_PTDS(base, symbol, since, twin_since, params, args) {#base, #symbol, since, 0}, {#base, #symbol "_ptds", twin_since, 1},
#define CUDA_FN_ALIAS(base, symbol, since)
#include "cuda_functions.def"
#undef CUDA_FN
#undef CUDA_FN_PTSZ
#undef CUDA_FN_PTDS
#undef CUDA_FN_ALIAS
};

static const struct version *newest(const char *base, int version, int twin) {
    const struct version *best = NULL;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (versions[i].twin == twin && versions[i].since <= version && !strcmp(versions[i].base, base) &&
            (!best || versions[i].since > best->since))
            best = &versions[i];
    return best;
}

static int is_answer_to(const char *base, int version, unsigned long long flags, void *driver) {
    void *found = NULL;
    CUresult r = real.cuGetProcAddress_v2 ? real.cuGetProcAddress_v2(base, &found, version, flags, NULL)
                 : real.cuGetProcAddress  ? real.cuGetProcAddress(base, &found, version, flags)
                                          : CUDA_ERROR_NOT_FOUND;
    return r == CUDA_SUCCESS && found == driver;
}

/* One name, two kinds of arguments: what cuGraphInstantiate stands for from 12.0 on is found by comparing. */
static const struct conflict {
    const char *base;
    int since;
    struct {
        const char *base;
        int version;
    } either[2];
} conflicts[] = {{"cuGraphInstantiate", 12000, {{"cuGraphInstantiate", 11000}, {"cuGraphInstantiateWithFlags", 11040}}}};

static const struct version *answered(const char *base, int version, unsigned long long flags, void *driver) {
    int twin = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    for (size_t i = 0; i < sizeof conflicts / sizeof *conflicts; i++)
        if (!strcmp(conflicts[i].base, base) && version >= conflicts[i].since) {
            for (int k = 0; k < 2; k++)
                if (is_answer_to(conflicts[i].either[k].base, conflicts[i].either[k].version, flags, driver))
                    return newest(conflicts[i].either[k].base, conflicts[i].either[k].version, 0);
            return NULL;
        }
    if (version > KNOWN_VERSION && !is_answer_to(base, KNOWN_VERSION, flags, driver))
        return NULL; /* a version that is newer than this library */
    const struct version *found = twin ? newest(base, version, 1) : NULL;
    return found ? found : newest(base, version, 0);
}

void *ts_route_named(const char *base, int version, unsigned long long flags, void *driver) {
    const struct version *found = answered(base, version, flags, driver);
    const struct ts_route *route = found ? by_name(found->symbol) : NULL;
    if (!route)
        return NULL;
    if (!*route->real) /* it is had no other way */
        *route->real = driver;
    return route->ours;
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
    if (*route->real == found && !ts_point_bypassed(route->name))
        *result = route->ours;
    return NULL;
}
