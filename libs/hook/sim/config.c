/* The machine's configuration: words key=value, split by spaces, commas or lines. TESSERA_SIM_CONFIG holds them, or names a file
 * that does. A word card=N/key=value changes one card. Only the process that creates the machine reads it. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static uint64_t size_of(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);
    if (*end == 'k' || *end == 'K')
        n <<= 10;
    else if (*end == 'm' || *end == 'M')
        n <<= 20;
    else if (*end == 'g' || *end == 'G')
        n <<= 30;
    return n;
}

/* Invented, but as regular as the real thing: the card's index is readable in its UUID and bus id. */
static void defaults(SimConfig *c)
{
    c->cards = 1;
    c->cuda_version = 12080;
    strcpy(c->driver_version, "570.86.15");
    c->clock = SIM_CLOCK_REAL;
    c->scale = 1;
    c->slice_ns = 2000000;
    c->sample_ns = 166666667;     /* assumed: NVML samples six times a second */
    c->context_bytes = c->context_most = 300 * MIB; /* assumed: some 500 MiB on an H100, less on smaller cards */
    c->module_bytes = 0;          /* assumed: small modules fit into what the context took */
    c->alloc_granule = SIM_GRANULE;
    c->lazy = 1;
    c->pool_chunk = 32 * MIB;     /* assumed */
    c->data_bytes = 64 * MIB;
    c->kernel_ns = 10000;
    for (uint32_t i = 0; i < SIM_CARDS; i++) {
        SimCardConfig *card = &c->card[i];
        strcpy(card->name, "Tessera Simulated GPU");
        for (unsigned b = 0; b < 16; b++)
            card->uuid[b] = (unsigned char)(0x51 * (b + 1) + 29 * i);
        card->uuid[0] = (unsigned char)i;
        card->pci_bus = 0x07 + 8 * i;
        card->sms = 108;
        card->minor = i;
        card->numa = i / 4;
        card->capability = 80;
        card->bytes = 16384 * MIB;
        card->parent = card->slice = SIM_NONE;
    }
}

static void parse_uuid(const char *text, unsigned char uuid[16])
{
    unsigned nibble = 0;
    if (strncmp(text, "GPU-", 4) == 0)
        text += 4;
    for (; *text && nibble < 32; text++) {
        const char *hex = "0123456789abcdef";
        const char *at = strchr(hex, *text | 0x20);
        if (!at || !*text)
            continue;
        unsigned value = (unsigned)(at - hex);
        uuid[nibble / 2] = (unsigned char)(nibble % 2 ? (uuid[nibble / 2] | value) : value << 4);
        nibble++;
    }
}

static bool set_card(SimCardConfig *card, const char *key, const char *value)
{
    if (!strcmp(key, "name")) {
        snprintf(card->name, sizeof card->name, "%.95s", value);
        for (char *p = card->name; *p; p++)
            *p = *p == '_' ? ' ' : *p; /* words cannot hold spaces */
    } else if (!strcmp(key, "memory"))
        card->bytes = size_of(value);
    else if (!strcmp(key, "reserved"))
        card->reserved = size_of(value);
    else if (!strcmp(key, "sms"))
        card->sms = (uint32_t)strtoul(value, NULL, 0);
    else if (!strcmp(key, "capability"))
        card->capability = atoi(value);
    else if (!strcmp(key, "numa"))
        card->numa = (uint32_t)strtoul(value, NULL, 0);
    else if (!strcmp(key, "minor"))
        card->minor = (uint32_t)strtoul(value, NULL, 0);
    else if (!strcmp(key, "uuid"))
        parse_uuid(value, card->uuid);
    else if (!strcmp(key, "mig"))
        card->mig = (uint32_t)strtoul(value, NULL, 0);
    else if (!strcmp(key, "pci"))
        sscanf(value, "%x:%x:%x", &card->pci_domain, &card->pci_bus, &card->pci_device);
    else
        return false;
    return true;
}

static void set_clock(SimConfig *c, const char *value)
{
    c->clock = !strcmp(value, "virtual") ? SIM_CLOCK_VIRTUAL : !strncmp(value, "scaled", 6) ? SIM_CLOCK_SCALED : SIM_CLOCK_REAL;
    if (c->clock == SIM_CLOCK_SCALED)
        c->scale = value[6] == ':' ? (uint32_t)strtoul(value + 7, NULL, 0) : 1;
    if (c->scale == 0)
        c->scale = 1;
}

static void set(SimConfig *c, const char *key, const char *value)
{
    struct {
        const char *key;
        uint64_t *place;
    } numbers[] = {
        {"slice_ns", &c->slice_ns},           {"sample_ns", &c->sample_ns},
        {"module", &c->module_bytes}, {"granule", &c->alloc_granule},
        {"pool_chunk", &c->pool_chunk},       {"data", &c->data_bytes},     {"kernel_ns", &c->kernel_ns},
        {"thunks", &c->thunks},               {"nameless", &c->nameless},
        {"lazy", &c->lazy},                   {"mps", &c->mps},             {"bias", &c->bias},
        {"accounting", &c->accounting},       {"multicast", &c->multicast},
        {"cig", &c->cig},
    };
    uint64_t n = size_of(value);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(key, numbers[i].key)) {
            *numbers[i].place = n;
            return;
        }
    const char *most = strchr(value, '-');
    if (!strcmp(key, "context")) {
        c->context_bytes = n;
        c->context_most = most ? size_of(most + 1) : n;
    } else if (!strcmp(key, "cards"))
        c->cards = n > SIM_CARDS ? SIM_CARDS : (uint32_t)n;
    else if (!strcmp(key, "participants"))
        c->participants = (uint32_t)n;
    else if (!strcmp(key, "cuda"))
        c->cuda_version = (uint32_t)n;
    else if (!strcmp(key, "driver"))
        snprintf(c->driver_version, sizeof c->driver_version, "%.31s", value);
    else if (!strcmp(key, "clock"))
        set_clock(c, value);
    else {
        bool known = false;
        for (uint32_t i = 0; i < SIM_CARDS; i++)
            known = set_card(&c->card[i], key, value);
        if (!known)
            fprintf(stderr, "tessera-sim: unknown setting %s=%s\n", key, value);
    }
}

static void apply(SimConfig *c, char *text)
{
    char *save = NULL;
    for (char *word = strtok_r(text, " ,\n\t", &save); word; word = strtok_r(NULL, " ,\n\t", &save)) {
        unsigned index;
        char *slash = strchr(word, '/');
        char *equals = strchr(word, '=');
        if (slash && sscanf(word, "card=%u/", &index) == 1 && index < SIM_CARDS) {
            equals = strchr(slash, '=');
            if (equals) {
                *equals = 0;
                set_card(&c->card[index], slash + 1, equals + 1);
            }
        } else if (equals && *word != '#') {
            *equals = 0;
            set(c, word, equals + 1);
        }
    }
}

/* Slices come behind the cards: hardware of their own, as far as programs can tell. Equal parts (assumed; real profiles leave rests). */
static void cut(SimConfig *c)
{
    uint32_t whole = c->cards;
    for (uint32_t i = 0; i < whole; i++)
        for (uint32_t k = 0; k < c->card[i].mig && c->cards < SIM_CARDS; k++) {
            SimCardConfig *slice = &c->card[c->cards++];
            *slice = c->card[i];
            slice->mig = 0;
            slice->parent = i;
            slice->slice = k;
            slice->bytes = (slice->bytes - slice->reserved) / c->card[i].mig / SIM_GRANULE * SIM_GRANULE;
            slice->reserved = 0;
            slice->sms /= c->card[i].mig;
            slice->uuid[15] = (unsigned char)(slice->uuid[15] + k + 1);
        }
}

void sim_config_load(SimConfig *config)
{
    const char *given = getenv("TESSERA_SIM_CONFIG");
    char text[8192] = "";
    defaults(config);
    if (!given)
        given = "";
    FILE *file = !*given || strchr(given, '=') ? NULL : fopen(given, "re");
    if (file) {
        size_t n = fread(text, 1, sizeof text - 1, file);
        text[n] = 0;
        fclose(file);
    } else {
        snprintf(text, sizeof text, "%s", given);
    }
    apply(config, text);
    if (config->alloc_granule == 0)
        config->alloc_granule = 1;
    if (config->slice_ns == 0)
        config->slice_ns = 1;
    if (config->sample_ns == 0)
        config->sample_ns = 1000000;
    if (config->pool_chunk < SIM_GRANULE)
        config->pool_chunk = SIM_GRANULE;
    cut(config);
}
