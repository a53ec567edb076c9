/* Devices: the machine's cards as CUDA_VISIBLE_DEVICES shows them, by index or UUID and in its order. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t visible[SIM_CARDS];
static int count;

/* A card in MIG mode stands for its first slice: a process can use one of them. */
static uint32_t usable(uint32_t card)
{
    for (uint32_t i = 0; sim->config.card[card].mig && i < sim->config.cards; i++)
        if (sim->config.card[i].parent == card)
            return i;
    return card;
}

/* The list ends at the first entry that names no card; a card named twice hides them all (assumed of duplicates). */
CUresult sim_devices_load(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    uint32_t cards[SIM_CARDS], n = sim_visible(cards);
    count = 0;
    if (!list) {
        for (; count < (int)n; count++)
            visible[count] = usable(cards[count]);
        return count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
    }
    while (*list && count < SIM_CARDS) {
        size_t length = strcspn(list, ",");
        uint32_t card = sim_choose(list, length, cards, n);
        if (card == SIM_NONE)
            break;
        card = usable(card);
        for (int i = 0; i < count; i++)
            if (visible[i] == card) {
                count = 0;
                return CUDA_ERROR_NO_DEVICE;
            }
        visible[count++] = card;
        list += length + (list[length] == ',');
    }
    return count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

int sim_device_count(void) { return count; }

CUresult sim_card_of(CUdevice device, uint32_t *card)
{
    if (device < 0 || device >= count)
        return CUDA_ERROR_INVALID_DEVICE;
    *card = visible[device];
    return CUDA_SUCCESS;
}

CUdevice sim_device_of_card(uint32_t card)
{
    for (int i = 0; i < count; i++)
        if (visible[i] == card)
            return i;
    return CU_DEVICE_INVALID;
}

#define CARD(dev)                                \
    uint32_t card_index;                         \
    ENTER();                                     \
    CUresult bad_device = sim_card_of(dev, &card_index); \
    if (bad_device)                              \
        return bad_device;                       \
    const SimCardConfig *card = &sim->config.card[card_index]

CUresult cuDeviceGetCount(int *n)
{
    ENTER();
    NEED(n);
    *n = count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CARD(ordinal);
    (void)card;
    NEED(device);
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    CARD(dev);
    if (!name || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)len, "%s", card->name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    CARD(dev);
    NEED(uuid);
    if (sim->config.nameless)
        return CUDA_ERROR_UNKNOWN;
    memcpy(uuid->bytes, card->parent == SIM_NONE ? card->uuid : sim->config.card[card->parent].uuid, 16);
    return CUDA_SUCCESS;
}

/* The second version names the slice, where the first names the card that it is of. */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    CARD(dev);
    NEED(uuid);
    if (sim->config.nameless)
        return CUDA_ERROR_UNKNOWN;
    memcpy(uuid->bytes, card->uuid, 16);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    CARD(dev);
    (void)card;
    NEED(bytes);
    *bytes = sim_capacity(card_index);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    size_t all = 0;
    CUresult r = cuDeviceTotalMem_v2(&all, dev);
    NEED(bytes);
    *bytes = all > UINT32_MAX ? UINT32_MAX : (unsigned)all;
    return r;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    CARD(dev);
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    *major = card->capability / 10;
    *minor = card->capability % 10;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice dev)
{
    CARD(dev);
    if (!id || len < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(id, (size_t)len, "%04X:%02X:%02X.0", card->pci_domain, card->pci_bus, card->pci_device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *id)
{
    unsigned domain, bus, device;
    ENTER();
    if (!dev || !id)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(id, "%x:%x:%x", &domain, &bus, &device) != 3) {
        domain = 0;
        if (sscanf(id, "%x:%x", &bus, &device) != 2)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; i < count; i++) {
        const SimCardConfig *card = &sim->config.card[visible[i]];
        if (card->pci_domain == domain && card->pci_bus == bus && card->pci_device == device) {
            *dev = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
    CARD(dev);
    (void)card;
    NEED(can);
    *can = dev != peer;
    return sim_card_of(peer, &card_index);
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice src, CUdevice dst)
{
    CARD(src);
    (void)card;
    NEED(value);
    if (src == dst)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attrib != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
    return sim_card_of(dst, &card_index);
}

CUresult cuDeviceGetDevResource(CUdevice dev, CUdevResource *resource, CUdevResourceType type)
{
    CARD(dev);
    NEED(resource);
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    memset(resource, 0, sizeof *resource);
    resource->type = type;
    resource->sm.smCount = card->sms;
    return CUDA_SUCCESS;
}
