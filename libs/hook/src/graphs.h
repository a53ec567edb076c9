/* Launching what may allocate when it runs. */
#ifndef TESSERA_SRC_GRAPHS_H
#define TESSERA_SRC_GRAPHS_H

#include "real.h"

/* Charge what the graph will take, run it, keep what it took. CUDA_ERROR_OUT_OF_MEMORY: not run. */
CUresult ts_graph_run(CUgraphExec exec, CUstream stream, CUresult (*run)(CUgraphExec, CUstream));

#endif
