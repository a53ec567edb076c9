/* What the files of the simulated NVML share. */
#ifndef TESSERA_SIM_NVML_LOCAL_H
#define TESSERA_SIM_NVML_LOCAL_H

#include "../abi/nvml_abi.h"
#include "state.h"

struct nvmlDevice_st {
    uint32_t magic, index, card;
};

nvmlReturn_t sim_nvml_ready(void);
nvmlReturn_t sim_nvml_card(nvmlDevice_t device, uint32_t *card);
uint32_t sim_nvml_count(void);
nvmlDevice_t sim_nvml_device(uint32_t index);
nvmlDevice_t sim_nvml_slice(uint32_t card); /* the handle of a slice, or of any card */
nvmlReturn_t sim_nvml_text(const char *from, char *to, unsigned length);

#define READY()                             \
    do {                                    \
        nvmlReturn_t not_ready = sim_nvml_ready(); \
        if (not_ready)                      \
            return not_ready;               \
    } while (0)
#define CARD(device, out)                                      \
    uint32_t index;                                            \
    nvmlReturn_t bad = sim_nvml_card(device, &index);          \
    if (bad)                                                   \
        return bad;                                            \
    if (!(out))                                                \
        return NVML_ERROR_INVALID_ARGUMENT;                    \
    const SimCardConfig *card = &sim->config.card[index];      \
    (void)card

#endif
