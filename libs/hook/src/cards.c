#include "cards.h"

#include <stdio.h>
#include <string.h>

#include "limits.h"
#include "log.h"
#include "real.h"
#include "relaxed.h"
#include "slots.h"
#include "usage_map.h"

#define DEVICES 64

struct ts_card ts_cards[TESSERA_CARDS + 1];
static uint32_t count TS_HOT;
static int8_t of_device[DEVICES] TS_HOT; /* index + 1; 0: not looked up */
static struct tessera_slot scratch[TESSERA_CARDS + 1]; /* for a card that has no slot yet */
static struct tessera_card_usage nowhere; /* of the card that gives nothing */
static ts_lock guard;
static int single TS_HOT; /* one CUDA device only: no need to ask which is current */

void ts_uuid_text(const char bytes[16], char text[TESSERA_UUID_BYTES]) {
    const unsigned char *b = (const unsigned char *)bytes;
    snprintf(text, TESSERA_UUID_BYTES, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static const char *bare(const char *uuid) {
    if (!strncmp(uuid, "GPU-", 4) || !strncmp(uuid, "MIG-", 4))
        uuid += 4;
    return !strncmp(uuid, "GPU-", 4) ? uuid + 4 : uuid;
}

int ts_uuid_same(const char *a, const char *b) {
    return !strncasecmp(bare(a), bare(b), TESSERA_UUID_BYTES - 8);
}

/* The record of this card in the usage file, taken if nobody has it. NULL: the table is full. */
static struct tessera_card_usage *record_of(const char *uuid, uint32_t *index) {
    struct tessera_usage *usage = ts_usage();
    struct tessera_card_usage *found = NULL;
    ts_structure_lock();
    for (uint32_t i = 0; i < TESSERA_CARDS && !found; i++) {
        struct tessera_card_usage *card = &usage->card[i];
        char theirs[TESSERA_UUID_BYTES];
        memcpy(theirs, card->uuid, sizeof theirs);
        theirs[sizeof theirs - 1] = 0;
        if (!__atomic_load_n(&card->used, __ATOMIC_ACQUIRE)) {
            memset(card->uuid, 0, sizeof card->uuid);
            memcpy(card->uuid, uuid, strnlen(uuid, sizeof card->uuid - 1));
            card->gain_permille = 1000;
            card->cores_permille = 1000;
            __atomic_store_n(&card->used, 1, __ATOMIC_RELEASE);
            usage->head.cards = i + 1;
            found = card;
        } else if (ts_uuid_same(theirs, uuid)) {
            found = card;
        }
        *index = i;
    }
    ts_structure_unlock();
    return found;
}

/* Called with guard held. Local and shared index are the same, so a card's place never differs. */
static struct ts_card *add(const char *uuid, int ordinal) {
    uint32_t index;
    struct tessera_card_usage *shared = record_of(uuid, &index);
    if (!shared)
        return NULL;
    struct ts_card *card = &ts_cards[index];
    memset(card->uuid, 0, sizeof card->uuid);
    memcpy(card->uuid, uuid, strnlen(uuid, sizeof card->uuid - 1));
    card->index = index;
    card->slot = -1;
    card->ordinal = ordinal;
    card->shared = shared;
    card->mine = &scratch[index];
    if (index >= count)
        count = index + 1;
    ts_limits_apply(card);
    return card;
}

/* Memory that nobody could count is not given, and whoever looks is told that there is none. */
static struct ts_card *give_nothing(const char *why, const char *what) {
    struct ts_card *card = &ts_cards[TESSERA_CARDS];
    card->index = TESSERA_CARDS;
    card->slot = card->ordinal = -1;
    card->rate_permille = 1000;
    card->shared = &nowhere;
    card->mine = &scratch[TESSERA_CARDS];
    ts_log_once(TS_LOG_ERROR, "%s %s: nothing may be taken of it", why, what);
    ts_gap(TESSERA_GAP_LIMITS);
    return card;
}

struct ts_card *ts_card_by_uuid(const char *uuid, int ordinal) {
    struct ts_card *found = NULL;
    if (!ts_usage())
        return NULL;
    ts_lock_take(&guard);
    for (uint32_t i = 0; i < TESSERA_CARDS && !found; i++)
        if (ts_cards[i].shared && ts_uuid_same(ts_cards[i].uuid, uuid))
            found = &ts_cards[i];
    if (!found)
        found = add(uuid, ordinal);
    else if (ordinal >= 0 && found->ordinal < 0)
        found->ordinal = ordinal;
    ts_lock_give(&guard);
    return found ? found : give_nothing("there is no room for another card", uuid);
}

/* Is it that there is no such device, or that nobody says which one it is? */
static int is_no_device(CUresult r) {
    return r == CUDA_ERROR_INVALID_DEVICE || r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_DEINITIALIZED ||
           r == CUDA_ERROR_NO_DEVICE || r == CUDA_ERROR_INVALID_VALUE;
}

static CUresult read_uuid(CUuuid *uuid, CUdevice device) {
    if (real.cuDeviceGetUuid_v2)
        return real.cuDeviceGetUuid_v2(uuid, device);
    return real.cuDeviceGetUuid ? real.cuDeviceGetUuid(uuid, device) : CUDA_ERROR_NOT_FOUND;
}

static struct ts_card *look_up(int device) {
    CUuuid uuid;
    char text[TESSERA_UUID_BYTES];
    int devices = 0;
    CUresult r = ts_usage() ? read_uuid(&uuid, device) : CUDA_ERROR_NO_DEVICE;
    if (r != CUDA_SUCCESS)
        return is_no_device(r) ? NULL : give_nothing("the UUID of a card", "cannot be read");
    ts_uuid_text(uuid.bytes, text);
    struct ts_card *card = ts_card_by_uuid(text, device);
    if (card->index == TESSERA_CARDS)
        return card;
    size_t bytes = 0;
    if (real.cuDeviceTotalMem_v2 && real.cuDeviceTotalMem_v2(&bytes, device) == CUDA_SUCCESS)
        __atomic_store_n(&card->shared->physical_bytes, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&of_device[device], (int8_t)(card->index + 1), __ATOMIC_RELEASE);
    if (real.cuDeviceGetCount && real.cuDeviceGetCount(&devices) == CUDA_SUCCESS && device == 0)
        __atomic_store_n(&single, devices == 1, __ATOMIC_RELEASE);
    return card;
}

struct ts_card *ts_card_by_device(int device) {
    if (device < 0 || device >= DEVICES)
        return NULL;
    int at = __atomic_load_n(&of_device[device], __ATOMIC_ACQUIRE);
    return at ? &ts_cards[at - 1] : look_up(device);
}

TS_OFTEN struct ts_card *ts_card_current(void) {
    CUdevice device;
    if (__atomic_load_n(&single, __ATOMIC_ACQUIRE))
        return &ts_cards[of_device[0] - 1];
    if (!real.cuCtxGetDevice || real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return NULL;
    return ts_card_by_device(device);
}

uint32_t ts_card_count(void) {
    return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

/* The usage file is another one: take our records and slots there and bring our charges along. */
void ts_cards_attach(void) {
    for (uint32_t i = 0; i < TESSERA_CARDS; i++) {
        struct ts_card *card = &ts_cards[i];
        uint32_t index;
        if (!card->shared)
            continue;
        ts_lock_take(&card->lock);
        int had_slot = card->slot >= 0;
        struct tessera_card_usage *shared = record_of(card->uuid, &index);
        if (shared && index == card->index) {
            /* It may still be the same file, if only our descriptor was lost: no slot twice. */
            if (had_slot)
                __atomic_store_n(&card->mine->state, TESSERA_SLOT_FREE, __ATOMIC_RELEASE);
            card->shared = shared;
            card->slot = -1;
            card->mine = &scratch[i];
            if (had_slot && ts_slot_claim(card)) {
                ts_card_lock(shared, (uint32_t)card->slot);
                for (int kind = 0; kind < TESSERA_KINDS; kind++)
                    card->mine->bytes[kind] = card->own[kind];
                ts_card_recount(shared, card->index);
                ts_card_unlock(shared, (uint32_t)card->slot);
            }
        }
        ts_limits_apply(card);
        ts_lock_give(&card->lock);
    }
}

void ts_cards_reset(void) {
    memset(ts_cards, 0, sizeof ts_cards);
    memset(of_device, 0, sizeof of_device);
    memset(scratch, 0, sizeof scratch);
    count = 0;
    single = 0;
    guard.word = 0;
    for (uint32_t i = 0; i < TESSERA_CARDS; i++)
        ts_cards[i].slot = -1;
}
