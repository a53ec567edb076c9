/* Routing: what the driver's lookup hands out, for every function that the hook wraps and every version of CUDA. Without the hook: is it
 * the address that dlsym has (addresses), or another (thunks)? Under it: is it the hook's? */
#define _GNU_SOURCE
#include "probe.h"

#include <dlfcn.h>

static const struct {
    const char *symbol, *base;
} wrapped[] = {
#define CUDA_FN(base, symbol, since, params) {#symbol, #base},
#define CUDA_FN_PTSZ(base, symbol, since, twin_since, params, args) {#symbol, #base}, {#symbol "_ptsz", #base},
#define CUDA_FN_PTDS(base, symbol, since, twin_since, params, args) {#symbol, #base}, {#symbol "_ptds", #base},
#define CUDA_FN_ALIAS(base, symbol, since)
#include "cuda_functions.def"
};

static const char *hooks[] = {
#define HOOK(symbol) #symbol,
#include "hooks.def"
};

static int is_hook(const char *symbol) {
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
        if (!strcmp(hooks[i], symbol))
            return 1;
    return 0;
}

static const char *place(void *f) { /* the file that an address is in */
    Dl_info info;
    const char *slash = f && dladdr(f, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    return slash ? slash + 1 : "nowhere";
}

void routing(void) {
    static const int versions[] = {11080, 12000, 12010, 12020, 12030, 12040, 12050, 12060, 12080, 12090, 13000, 13010, 13020, 13030, 13040, 13050};
    long same = 0, other = 0, ours = 0, theirs = 0, missing = 0;
    int driver_version = 0, hooked = 0;
    MUST(CU(cuInit)(0));
    MUST(CU(cuDriverGetVersion)(&driver_version));
    PFN_cuGetProcAddress_v2 look_up = CU(cuGetProcAddress_v2);
    hooked = !strncmp(place((void *)look_up), "libtessera", 10);
    for (size_t i = 0; i < sizeof wrapped / sizeof *wrapped; i++) {
        if (!is_hook(wrapped[i].symbol))
            continue;
        for (size_t v = 0; v < sizeof versions / sizeof *versions && versions[v] <= driver_version; v++)
            for (unsigned flags = 0; flags <= 2; flags++) {
                void *f = NULL;
                CUdriverProcAddressQueryResult status;
                if (look_up(wrapped[i].base, &f, versions[v], flags, &status) || !f) {
                    missing++;
                    continue;
                }
                Dl_info info;
                int named = dladdr(f, &info) && info.dli_sname && info.dli_saddr == f;
                named ? same++ : other++;
                int inside = !strncmp(place(f), "libtessera", 10);
                inside ? ours++ : theirs++;
                if (hooked && !inside)
                    printf("unrouted %s version %d flags %u in %s\n", wrapped[i].base, versions[v], flags, place(f));
            }
    }
    printf("driver_version %d\nlookups %ld\nmissing %ld\nwith_a_name_of_their_own %ld\nthunks %ld\n", driver_version, same + other, missing, same, other);
    if (hooked)
        probe_expect("every_lookup_is_the_hooks", theirs, 0);
    else
        printf("drivers_own %ld\n", theirs);
    printf("hooks_own %ld\n", ours);
}
