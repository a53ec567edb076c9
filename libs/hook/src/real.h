/* The driver's and NVML's own functions, as found in the libraries that the application uses. */
#ifndef TESSERA_SRC_REAL_H
#define TESSERA_SRC_REAL_H

#include "cuda_abi.h"
#include "nvml_abi.h"

struct ts_real {
#define HOOK(symbol) PFN_##symbol symbol;
#define USE(symbol) PFN_##symbol symbol;
#define NVML_HOOK(symbol) PFN_##symbol symbol;
#define NVML_USE(symbol) PFN_##symbol symbol;
#include "hooks.def"
};

extern struct ts_real real; /* entries are NULL where the library has no such function */

void ts_real_load_cuda(void);
void ts_real_load_nvml(void);
void *ts_real_dlsym(void *handle, const char *name); /* libc's, never ours */
void *ts_real_dlsym_address(void);

#endif
