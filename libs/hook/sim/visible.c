/* Which of the machine's cards this process can see at all, as device nodes decide in a container: TESSERA_SIM_DEVICES lists them by
 * index or UUID ("all" or unset: every card), or is the path of a folder whose files are named after them, as a runtime can mount one
 * for each card but cannot join variables. CUDA_VISIBLE_DEVICES selects among these, NVML shows exactly these. */
#include "state.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sim_uuid_text(uint32_t card, char text[SIM_UUID_TEXT])
{
    const unsigned char *u = sim->config.card[card].uuid;
    int at = snprintf(text, SIM_UUID_TEXT, sim->config.card[card].parent == SIM_NONE ? "GPU-" : "MIG-");
    for (int b = 0; b < 16; b++)
        at += snprintf(text + at, (size_t)(SIM_UUID_TEXT - at), b == 4 || b == 6 || b == 8 || b == 10 ? "-%02x" : "%02x", u[b]);
}

uint32_t sim_choose(const char *word, size_t length, const uint32_t *cards, uint32_t count)
{
    uint32_t found = SIM_NONE;
    char *end;
    while (length && *word == ' ') {
        word++;
        length--;
    }
    if (length >= 4 && !strncmp(word, "MIG-", 4)) {
        for (uint32_t i = 0; i < sim->config.cards; i++) {
            char uuid[SIM_UUID_TEXT];
            sim_uuid_text(i, uuid);
            for (uint32_t k = 0; k < count; k++)
                if ((sim->config.card[i].parent == cards[k] || cards[k] == i) && !strncmp(uuid, word, length))
                    return i;
        }
        return SIM_NONE;
    }
    if (length < 4 || strncmp(word, "GPU-", 4)) {
        long index = strtol(word, &end, 10);
        return end != word && index >= 0 && index < (long)count ? cards[index] : SIM_NONE;
    }
    for (uint32_t i = 0; i < count; i++) {
        char uuid[SIM_UUID_TEXT];
        sim_uuid_text(cards[i], uuid);
        if (strncmp(uuid, word, length))
            continue;
        if (found != SIM_NONE)
            return SIM_NONE; /* a prefix must be unique */
        found = cards[i];
    }
    return found;
}

/* Those that a folder names, in the machine's order. */
static uint32_t in_folder(const char *path, const uint32_t *all, uint32_t whole, uint32_t *cards)
{
    bool there[SIM_CARDS] = {false};
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (struct dirent *file; (file = readdir(folder));) {
        uint32_t card = sim_choose(file->d_name, strlen(file->d_name), all, whole);
        if (card != SIM_NONE)
            there[card] = true;
    }
    closedir(folder);
    uint32_t n = 0;
    for (uint32_t i = 0; i < whole; i++)
        if (there[all[i]])
            cards[n++] = all[i];
    return n;
}

uint32_t sim_visible(uint32_t cards[SIM_CARDS])
{
    uint32_t all[SIM_CARDS], n = 0;
    const char *list = getenv("TESSERA_SIM_DEVICES");
    uint32_t whole = 0;
    for (uint32_t i = 0; i < sim->config.cards; i++)
        if (sim->config.card[i].parent == SIM_NONE)
            all[whole] = cards[whole] = i, whole++;
    if (!list || !strcmp(list, "all"))
        return whole;
    if (*list == '/')
        return in_folder(list, all, whole, cards);
    while (*list) {
        size_t length = strcspn(list, ",");
        uint32_t card = sim_choose(list, length, all, whole);
        if (card != SIM_NONE && n < SIM_CARDS)
            cards[n++] = card;
        list += length + (list[length] == ',');
    }
    return n;
}
