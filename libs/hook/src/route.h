/* Which of our functions stands for which of the driver's. By the driver's own address wherever
 * one is at hand, so that versions and per-thread twins cannot be mixed up. */
#ifndef TESSERA_SRC_ROUTE_H
#define TESSERA_SRC_ROUTE_H

#include <stddef.h>

void ts_route_index(void);            /* after the driver was loaded */
void *ts_route_address(void *driver); /* our function for the driver's, or NULL */
/* Our function for what the driver answered to `base` in this version and with these flags, by name; NULL:
 * not wrapped, or not to be told apart. For drivers that hand out another address than dlsym finds. */
void *ts_route_named(const char *base, int version, unsigned long long flags, void *driver);
int ts_route_family(const char *base); /* do we wrap any version of this name? */

/* For the dlsym stub: the address to jump to, or NULL and the answer in *result. */
void *ts_dlsym_decide(void *handle, const char *name, void **result);

struct ts_route {
    const char *name;
    void *ours;
    void **real;
    int nvml;
};
extern const struct ts_route ts_routes[];
extern const size_t ts_route_count;

#endif
