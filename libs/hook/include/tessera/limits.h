/* The limits file: written by the agent, mounted read-only into one container, the only truth
 * about what that container may use. 4,096 bytes.
 *
 * Writing (the agent): sequence + 1 (odd), body, sequence + 1 (even), each with its own pwrite;
 * or a new file renamed over the old one. Reading (the hook): pread, never mmap, so that a
 * truncated file is an error and not a signal; twice the same even sequence, else try again. */
#ifndef TESSERA_LIMITS_H
#define TESSERA_LIMITS_H

#include "tessera/head.h"

#define TESSERA_LIMITS_MAGIC UINT64_C(0x315354494d494c54) /* "TLIMITS1", little endian */
#define TESSERA_LIMITS_SIZE 4096u
#define TESSERA_LIMITS_PATH "/usr/local/tessera/limits"

/* tessera_limits.flags */
#define TESSERA_SUSPEND 0x1u        /* hold every launch and allocation, until suspend_until_ns */
#define TESSERA_HOLD_LAUNCHES 0x2u  /* hold launches only, until hold_until_ns: a more important neighbour is busy */
#define TESSERA_CLOSED 0x4u         /* without a usage file refuse memory instead of counting alone */
#define TESSERA_SCALE_UTILIZATION 0x8u /* show utilisation as a share of the tile, not the card */

/* tessera_card_limit.mode */
#define TESSERA_CORES_OFF 0u     /* GPU time is counted, not limited */
#define TESSERA_CORES_HARD 1u    /* cores_permille, always */
#define TESSERA_CORES_ELASTIC 2u /* plus lent_permille until lent_until_ns */

/* tessera_card_limit.flags */
#define TESSERA_CARD_OVERSUBSCRIBE 0x1u /* above resident_bytes, memory is managed */
#define TESSERA_CARD_REST 0x4u /* elastic, of what is left only: cores_permille is a floor, and 0 is none */
#define TESSERA_CARD_CHARGE_OVERHEAD 0x2u /* contexts and modules count against memory_bytes */
#define TESSERA_CARD_RECLAIM 0x8u /* memory that the share has room for and the driver refuses is waited for: the agent
                                  * takes it from best-effort containers */

struct tessera_card_limit {
    uint8_t uuid[TESSERA_UUID_BYTES];
    uint64_t memory_bytes;   /* 0: no limit */
    uint64_t resident_bytes; /* oversubscribed: how much of memory_bytes may lie on the card */
    uint32_t cores_permille; /* of the card's time; 0 or >= 1000: no limit */
    uint32_t lent_permille;  /* elastic: idle time lent on top */
    uint64_t lent_until_ns;  /* CLOCK_REALTIME; a loan ends here even if the agent is gone */
    uint32_t mode;
    uint32_t flags;
    uint32_t index;    /* the card's number on the node, for messages */
    int32_t priority;  /* as HAMi's: lower is more important; informative */
    /* What the agent measured with NVML for this container: GPU time so far. The hook trims its
     * own event times by it, because those include the slices of other tenants. */
    uint64_t measured_ns;
    uint64_t measured_at_ns; /* CLOCK_REALTIME of that measurement; 0: none */
    uint64_t measured_usage_ns; /* what the hook's raw_ns read at that moment */
    uint8_t reserved[40];
};

struct tessera_limits {
    struct tessera_head head;
    uint32_t flags;
    uint32_t log_level; /* 1 errors, 2 warnings, 3 notes; 0: not said. TESSERA_LOG_LEVEL wins */
    uint64_t generation; /* of the grant; echoed in the usage file once it is in force */
    uint8_t container[128]; /* "namespace/pod/container", for messages */
    uint64_t hold_until_ns; /* CLOCK_REALTIME; a hold ends here even if the agent is gone. 0: without end */
    union {
        uint8_t reserved[296];
        uint64_t suspend_until_ns; /* the same for a suspension */
    };
    struct tessera_card_limit card[TESSERA_CARDS];
    uint8_t reserved_end[768];
};

TESSERA_PIN(tessera_card_limit, uuid, 0);
TESSERA_PIN(tessera_card_limit, memory_bytes, 64);
TESSERA_PIN(tessera_card_limit, resident_bytes, 72);
TESSERA_PIN(tessera_card_limit, cores_permille, 80);
TESSERA_PIN(tessera_card_limit, lent_permille, 84);
TESSERA_PIN(tessera_card_limit, lent_until_ns, 88);
TESSERA_PIN(tessera_card_limit, mode, 96);
TESSERA_PIN(tessera_card_limit, flags, 100);
TESSERA_PIN(tessera_card_limit, index, 104);
TESSERA_PIN(tessera_card_limit, priority, 108);
TESSERA_PIN(tessera_card_limit, measured_ns, 112);
TESSERA_PIN(tessera_card_limit, measured_at_ns, 120);
TESSERA_PIN(tessera_card_limit, measured_usage_ns, 128);
TESSERA_PIN(tessera_card_limit, reserved, 136);
_Static_assert(sizeof(struct tessera_card_limit) == 176, "tessera_card_limit");
TESSERA_PIN(tessera_limits, flags, 64);
TESSERA_PIN(tessera_limits, log_level, 68);
TESSERA_PIN(tessera_limits, generation, 72);
TESSERA_PIN(tessera_limits, container, 80);
TESSERA_PIN(tessera_limits, hold_until_ns, 208);
TESSERA_PIN(tessera_limits, reserved, 216);
TESSERA_PIN(tessera_limits, card, 512);
TESSERA_PIN(tessera_limits, reserved_end, 3328);
_Static_assert(sizeof(struct tessera_limits) == TESSERA_LIMITS_SIZE, "tessera_limits");

#endif
