#include "real.h"

#include <dlfcn.h>
#include <stddef.h>

#include "clock.h"
#include "log.h"
#include "route.h"

struct ts_real real;

typedef void *(*dlsym_function)(void *handle, const char *name);

/* libc's dlsym, found by version: an unversioned lookup would find our own. */
void *ts_real_dlsym_address(void) {
    static void *found;
    static const char *const versions[] = {
#if defined(__x86_64__)
        "GLIBC_2.2.5",
#endif
        "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.0"};
    for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++)
        found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (!found) {
        void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
        for (size_t i = 0; libc && !found && i < sizeof versions / sizeof *versions; i++)
            found = dlvsym(libc, "dlsym", versions[i]);
    }
    return found;
}

void *ts_real_dlsym(void *handle, const char *name) {
    void *address = ts_real_dlsym_address();
    return address ? ((dlsym_function)(uintptr_t)address)(handle, name) : NULL;
}

/* The object that is loaded already, else the one that the loader finds. Never unloaded: we keep
 * pointers into it. */
static void *open_library(const char *name) {
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (!handle)
        handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle)
        ts_log(TS_LOG_WARNING, "%s: %s", name, dlerror());
    return handle;
}

#define LOAD(symbol) *(void **)&real.symbol = ts_real_dlsym(handle, #symbol);

void ts_real_load_cuda(void) {
    void *handle = open_library("libcuda.so.1");
    if (!handle)
        return;
#define HOOK LOAD
#define USE LOAD
#include "hooks.def"
    ts_clock_use((ts_clock_now)(uintptr_t)ts_real_dlsym(handle, "cuSimNow"),
                 (ts_clock_sleep)(uintptr_t)ts_real_dlsym(handle, "cuSimSleep"));
}

void ts_real_load_nvml(void) {
    void *handle = open_library("libnvidia-ml.so.1");
    if (!handle)
        return;
#define NVML_HOOK LOAD
#define NVML_USE LOAD
#include "hooks.def"
}
