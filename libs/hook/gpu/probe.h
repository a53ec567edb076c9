/* What the probe's files share. No header or library of the vendor is needed: the driver is opened, kernels are PTX text. */
#ifndef TESSERA_GPU_PROBE_H
#define TESSERA_GPU_PROBE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_abi.h"
#include "nvml_abi.h"

#define MIB ((size_t)1 << 20)
#define CU(symbol) ((PFN_##symbol)probe_get(#symbol))
#define MUST(call)                                                            \
    do {                                                                      \
        CUresult r_ = (call);                                                 \
        if (r_ != CUDA_SUCCESS) {                                             \
            fprintf(stderr, "%s: error %d (line %d)\n", #call, (int)r_, __LINE__); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

extern void *probe_driver;
void *probe_get(const char *name); /* ends the program where the driver lacks it */
void *probe_try(const char *name); /* NULL where the driver lacks it */
double probe_now(void);            /* seconds */
CUcontext probe_open(CUdevice *device);
size_t probe_free(void);
CUfunction probe_spin(void); /* parameters: uint64_t nanoseconds, device address of three uint64_t or 0 */
CUresult probe_launch(CUfunction f, unsigned blocks, uint64_t ns, CUdeviceptr out, CUstream stream);
/* Says how a case went: "check NAME ok|WRONG (what it gave)". */
void probe_expect(const char *what, long long got, long long wanted);

/* Each prints lines "NAME VALUE" or checks. */
void routing(void);
void memory(size_t limit_mib);
void whole(void);
void resets(void);
void sharing(int handles);
void cost(int rounds);
void spin(double kernel_us, double seconds, int synchronous, int streams, int all_sms, int graph);
void view(void);

#endif
