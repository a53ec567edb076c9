/* A stream capture in progress. */
#ifndef TESSERA_SIM_CAPTURE_H
#define TESSERA_SIM_CAPTURE_H

#include "graph.h"

struct Capture {
    uint64_t id;
    CUstreamCaptureMode mode;
    CUgraph graph;
    bool given; /* the graph is the caller's (BeginCaptureToGraph) */
    bool invalid;
    CUstream origin;
    const void *thread;
    Capture *next;
};

extern Capture *sim_captures;      /* all of this process; local lock */
extern unsigned sim_capture_count; /* how many: the common answer is none */
const void *sim_capture_thread(void); /* names the calling thread */
CUresult sim_capture_deps(CUstream s, const CUgraphNode *deps, size_t count); /* what its next node follows */

#endif
