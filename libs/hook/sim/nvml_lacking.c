/* NVML: what is not simulated. A tool that looks a name up finds it, as in the real library, and is told that the card cannot. */
#include "nvml_local.h"

#define NVML_LACKING(symbol)                                            \
    NVML_ABI_API nvmlReturn_t symbol(void);                             \
    nvmlReturn_t symbol(void)                                           \
    {                                                                   \
        READY();                                                        \
        return NVML_ERROR_NOT_SUPPORTED;                                \
    }
#include "nvml_lacking.def"
