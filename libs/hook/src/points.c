#include "points.h"

#ifdef TESSERA_POINTS
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* TESSERA_KILL_AT=n: die by SIGKILL at the n-th point that is passed. */
void ts_point(const char *name) {
    static long passed, wanted = -1;
    (void)name;
    if (wanted < 0) {
        const char *text = getenv("TESSERA_KILL_AT");
        wanted = text ? atol(text) : 0;
    }
    if (wanted && __atomic_add_fetch(&passed, 1, __ATOMIC_RELAXED) == wanted)
        kill(getpid(), SIGKILL);
}
#else
typedef int ts_points_are_off; /* ISO C wants something in every file */
#endif
