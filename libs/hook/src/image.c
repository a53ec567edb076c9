/* A cubin is ELF, and its sections say what they take, zeroed ones too. A fat binary has an entry for each
 * architecture, of which one is loaded: the largest counts, at its size when it is unpacked. Its layout is that of
 * fatbinary_section.h in the toolkit, and of what nvcc writes. */
#include "image.h"

#include <elf.h>
#include <string.h>
#include <sys/stat.h>

#define WRAPPER 0x466243B1u
#define FAT_BINARY 0xBA55ED50u
#define KIND_CUBIN 2
#define MOST (UINT64_C(1) << 40) /* no card has as much */
#define FILE_GROWS 8             /* times, when it is unpacked */

struct wrapper {
    uint32_t magic, version;
    const unsigned char *data;
};

struct fat_binary {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of the entries */
};

struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint64_t names[5];
    uint64_t unpacked_bytes; /* 0: it is not packed */
};

static uint64_t of_cubin(const unsigned char *at) {
    Elf64_Ehdr head;
    Elf64_Shdr section;
    uint64_t sum = 0;
    memcpy(&head, at, sizeof head);
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof section)
        return 0;
    for (uint32_t i = 0; i < head.e_shnum; i++) {
        memcpy(&section, at + head.e_shoff + i * sizeof section, sizeof section);
        if ((section.sh_flags & SHF_ALLOC) && section.sh_size < MOST)
            sum += section.sh_size;
    }
    return sum;
}

static int is_cubin(const unsigned char *at) {
    return !strncmp((const char *)at, ELFMAG, SELFMAG); /* a text may be shorter */
}

static uint64_t of_entry(const struct entry *entry, const unsigned char *payload) {
    if (entry->kind != KIND_CUBIN)
        return 0;
    if (entry->unpacked_bytes > entry->bytes)
        return entry->unpacked_bytes;
    return entry->bytes >= sizeof(Elf64_Ehdr) && is_cubin(payload) ? of_cubin(payload) : entry->bytes;
}

static uint64_t of_fat_binary(const unsigned char *at) {
    struct fat_binary head;
    struct entry entry;
    uint64_t most = 0;
    memcpy(&head, at, sizeof head);
    at += head.header_bytes;
    for (uint64_t left = head.bytes; left >= sizeof entry;) {
        memcpy(&entry, at, sizeof entry);
        if (entry.header_bytes < sizeof entry || entry.header_bytes > left || entry.bytes > left - entry.header_bytes)
            break;
        uint64_t bytes = of_entry(&entry, at + entry.header_bytes);
        most = bytes > most && bytes < MOST ? bytes : most;
        at += entry.header_bytes + entry.bytes;
        left -= entry.header_bytes + entry.bytes;
    }
    return most;
}

static uint64_t bytes_of(const unsigned char *at) {
    struct wrapper wrapper;
    uint32_t magic;
    if (is_cubin(at))
        return of_cubin(at);
    if (strnlen((const char *)at, sizeof magic) < sizeof magic)
        return 0;
    memcpy(&magic, at, sizeof magic);
    if (magic == WRAPPER) {
        memcpy(&wrapper, at, sizeof wrapper);
        at = wrapper.data;
        memcpy(&magic, at, sizeof magic);
    }
    return magic == FAT_BINARY ? of_fat_binary(at) : 0;
}

uint64_t ts_image_bytes(const void *image) {
    uint64_t bytes = bytes_of(image);
    return bytes ? bytes : TS_IMAGE_UNKNOWN;
}

uint64_t ts_image_file_bytes(const char *path) {
    struct stat file;
    if (stat(path, &file) < 0 || !S_ISREG(file.st_mode) || (uint64_t)file.st_size < TS_IMAGE_UNKNOWN / FILE_GROWS)
        return TS_IMAGE_UNKNOWN;
    return (uint64_t)file.st_size * FILE_GROWS;
}
