/* Random operations on every kind of memory that a card holds; for the sweep and the soak. */
#ifndef TESSERA_TESTS_WANDER_H
#define TESSERA_TESTS_WANDER_H

#include "harness.h"

enum { WANDER_LINEAR, WANDER_PITCH, WANDER_ARRAY, WANDER_MIPMAP, WANDER_VMM, WANDER_POOL, WANDER_KINDS };

struct thing {
    int kind;
    CUdeviceptr at;
    void *handle;
    size_t bytes;
};

/* 0: refused for want of memory. Anything else that goes wrong ends the process. */
int wander_take(int kind, size_t bytes, struct thing *out);
void wander_give(const struct thing *thing);
void wander_graph(size_t bytes); /* instantiate, launch, destroy */
extern size_t wander_least, wander_most; /* bytes of one thing */
void wander(unsigned seed, long operations, struct thing held[64], int *count);

#endif
