/* Another preloaded library, as allocators' shims are: wraps getppid and finds the next one. */
#include <dlfcn.h>
#include <sys/types.h>

pid_t getppid(void) {
    pid_t (*next)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "getppid");
    return next == getppid ? -1 : next() + 10000000;
}
