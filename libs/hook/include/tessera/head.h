/* The frozen header that begins every file shared between the agent and the hook.
 *
 * Rules for both files: fixed size for ever (a resize could kill a process that has it mapped),
 * fixed-width integers in the machine's order, no _Atomic (its lock tables are private to a
 * process), new fields only out of reserved bytes, magic stored last. */
#ifndef TESSERA_HEAD_H
#define TESSERA_HEAD_H

#include <stddef.h>
#include <stdint.h>

#define TESSERA_LAYOUT 1u      /* a reader refuses any other number */
#define TESSERA_CARDS 16u      /* card records in either file */
#define TESSERA_UUID_BYTES 64u /* "GPU-..." or "MIG-..." as NVML spells it, NUL-padded */

struct tessera_head {
    uint32_t layout;     /* TESSERA_LAYOUT */
    uint32_t size;       /* bytes of the whole file */
    uint32_t cards;      /* card records in use */
    uint32_t sequence;   /* limits: odd while the agent writes. usage: times it was rebuilt */
    uint64_t written_ns; /* CLOCK_REALTIME of the last write (usage: of its creation) */
    uint8_t reserved[32];
    uint64_t magic; /* stored last, with release order */
};

#define TESSERA_PIN(type, field, at) \
    _Static_assert(offsetof(struct type, field) == (at), #type "." #field)

TESSERA_PIN(tessera_head, layout, 0);
TESSERA_PIN(tessera_head, size, 4);
TESSERA_PIN(tessera_head, cards, 8);
TESSERA_PIN(tessera_head, sequence, 12);
TESSERA_PIN(tessera_head, written_ns, 16);
TESSERA_PIN(tessera_head, reserved, 24);
TESSERA_PIN(tessera_head, magic, 56);
_Static_assert(sizeof(struct tessera_head) == 64, "tessera_head");

#endif
