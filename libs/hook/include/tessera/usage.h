/* The usage file: written by the hook in every process of one container, read by the agent, and
 * writable by the container: whoever reads it clamps every number and trusts none. 274,432 bytes.
 *
 * One card record per card, shared by all processes: the charge, and the bucket of GPU time. One
 * slot per process and card. A slot is alive while its process holds the open-file-description
 * lock on byte TESSERA_ALIVE_AT + index, or a process with its pid and start time exists. What a
 * dead slot held is given back by the first living process that notices, so the charge of a card
 * is always the sum over the slots of that card. */
#ifndef TESSERA_USAGE_H
#define TESSERA_USAGE_H

#include "tessera/head.h"

#define TESSERA_USAGE_MAGIC UINT64_C(0x3153454741535554) /* "TUSAGES1", little endian */
#define TESSERA_USAGE_SIZE 274432u
#define TESSERA_USAGE_PATH "/usr/local/tessera/usage"
#define TESSERA_SLOTS 512u
#define TESSERA_EXPORTS 1792u
#define TESSERA_BINS 2048u            /* ring of milliseconds, for overlapping kernels */
#define TESSERA_TIMES 16u             /* of tessera_usage.kernel_times */
#define TESSERA_TIMES_SHIFT 12u       /* the first counts what took less than 2^12 ns, each other twice as much */
#define TESSERA_ALIVE_AT (1ull << 40) /* lock bytes lie beyond the data, for any file size */
#define TESSERA_STRUCTURE_AT (1ull << 41) /* lock byte: slots and records are being changed */

/* Kinds of memory; all are charged. */
enum tessera_kind {
    TESSERA_DEVICE,  /* cuMemAlloc, cuMemAllocPitch */
    TESSERA_ARRAY,   /* arrays and mipmapped arrays */
    TESSERA_VIRTUAL, /* cuMemCreate until the last release and the last unmap */
    TESSERA_POOL,    /* what memory pools hold, freed or not */
    TESSERA_MANAGED, /* cuMemAllocManaged, and oversubscription */
    TESSERA_GRAPH,   /* what the device's graph memory pool holds */
    TESSERA_CONTEXT, /* contexts and modules, only where the limits file says so */
    TESSERA_OTHER,
    TESSERA_KINDS
};

/* tessera_slot.state */
#define TESSERA_SLOT_FREE 0u
#define TESSERA_SLOT_LIVE 1u

/* tessera_slot.gaps: what this process could not have enforced, or was not given */
#define TESSERA_GAP_SYMBOL 0x1u   /* the driver handed out a function of a hooked family unhooked */
#define TESSERA_GAP_LIMITS 0x2u   /* a limits file exists and is not valid */
#define TESSERA_GAP_PRIVATE 0x4u  /* no shared usage file: this process counts alone (never in a file) */
#define TESSERA_GAP_EVENTS 0x8u   /* GPU time is predicted only: events could not be recorded */
#define TESSERA_GAP_OVER 0x10u    /* more is charged than the limit allows (lowered, or a pool grew) */

struct tessera_card_usage {
    uint8_t uuid[TESSERA_UUID_BYTES];
    /* memory: charged_bytes and the slots' bytes change under the lock */
    uint32_t lock; /* slot + 1 of the holder, bit 31: somebody waits */
    uint32_t used; /* 1: this record is taken; stored last */
    uint64_t charged_bytes;
    uint64_t peak_bytes;
    uint64_t limit_bytes; /* in force; 0: none */
    uint64_t denials;
    uint64_t physical_bytes;
    /* What the container waits for although its share has room: the latest of those that wait, and when it last
     * said so (CLOCK_REALTIME; 0: nothing). One that died says so no more. */
    uint64_t wanted_bytes;
    uint64_t wanted_at_ns;
    /* GPU time: the bucket. Times of refill are of the hook's clock (CLOCK_MONOTONIC). */
    int64_t tokens_ns;
    uint64_t refilled_ns;
    /* Allocations that the driver refused although the share had room: those that failed, and those that waited
     * and then had it. */
    uint64_t failed_for_others;
    uint64_t waited_for_others;
    uint8_t reserved_bucket[32];
    uint64_t raw_ns;  /* GPU time as events and predictions say, all processes, dead ones too */
    uint64_t gpu_ns;  /* the same after the gain: what was debited */
    uint64_t throttled_ns;
    uint64_t launches;
    uint64_t last_launch_ns; /* CLOCK_REALTIME, within some milliseconds */
    uint64_t generation;     /* of the limits in force */
    uint32_t cores_permille; /* in force, loans included; 1000: no limit */
    uint32_t gain_permille;  /* agent's measurement over the hook's own */
    uint64_t longest_ns; /* the longest launch of late: how coarse both measurements are */
    uint64_t gain_at_ns; /* the agent's measurement from which on the next gain is taken */
    uint64_t gain_measured_ns;
    uint64_t gain_usage_ns;
    uint64_t balance_at_ns; /* the agent's measurement up to which the debits were balanced */
    uint64_t balance_measured_ns; /* measured, and debited, when balancing began; */
    uint64_t balance_gpu_ns;      /* less what balancing has debited since */
    union {
        uint8_t reserved[104];
        struct { /* of the hook alone: what the bucket would be, had it been debited what the agent measured */
            int64_t replay_ns;
            uint64_t replay_at_ns;
            uint64_t replay_measured_ns;
            uint64_t replay_throttled_ns;
            /* and whose turn it is: the lease (lease.c) */
            uint32_t lease; /* slot + 1 of the process that may launch; a futex */
            uint32_t processes; /* with a slot, as of the last look for dead ones (slots.c) */
            uint64_t lease_until_ns; /* of the hook's clock: from then on others may take it */
            uint64_t lease_clear_ns; /* from then on nothing of the process before is under way */
            /* the gain: measured, and counted by the hook, of late (measured.c) */
            uint64_t late_measured_ns;
            uint64_t late_usage_ns;
            uint64_t measured_seen_ns; /* of the hook's clock: when it took the agent's last measurement */
            /* and what the container was entitled to since the replay, at whatever rates were in force (measured.c) */
            uint64_t entitled_permille_ns;
            uint64_t entitled_for_ns; /* in this time */
            uint64_t entitled_at_ns;  /* which ended then, of the hook's clock */
        };
    };
    /* Memory over time; under the lock. 0 in a file of an older library. */
    uint64_t allocated_bytes; /* charged in all, whatever was given back since */
    uint64_t hour_peak_bytes; /* the most that was charged */
    uint64_t peak_hour;       /* in this hour since 1970 */
    uint8_t reserved_memory[16];
    /* bin[ms % TESSERA_BINS]: 12 bits of ms / TESSERA_BINS, 20 bits of nanoseconds charged */
    uint32_t bin[TESSERA_BINS];
};

struct tessera_slot {
    uint32_t state;
    int32_t pid;          /* in the container's pid namespace */
    uint64_t started;     /* field 22 of /proc/<pid>/stat; 0: unknown */
    uint32_t card;        /* index of the card record */
    uint32_t version;     /* of the library: major << 16 | minor << 8 | patch */
    uint32_t gaps;
    uint32_t contexts;    /* live contexts of this process on this card */
    uint64_t bytes[TESSERA_KINDS];
    uint64_t gpu_ns;
    uint64_t launches;
    uint64_t throttled_ns;
    uint64_t denials;
    uint64_t last_launch_ns; /* CLOCK_REALTIME */
    uint64_t last_active_ns; /* launch or allocation, CLOCK_REALTIME */
    int64_t outstanding_ns;  /* debited, not yet measured; returned if the process dies */
    uint64_t overhead_bytes; /* contexts and modules, measured, not charged */
    uint64_t imported_bytes; /* memory that another process exported, charged there */
    uint8_t command[16];
    union {
        uint8_t reserved[72];
        struct { /* of the hook alone: lease.c */
            uint32_t waits; /* for the lease */
            uint32_t lease_reserved;
            int64_t deficit_ns; /* below zero: it took more than its turn */
            int64_t turn_ns;    /* debited since the turn began */
            int64_t throttled_outstanding_ns; /* of what is outstanding: not launched yet */
        };
    };
};

struct tessera_usage {
    struct tessera_head head;
    uint32_t version; /* of the library that built the file */
    uint32_t slots;   /* TESSERA_SLOTS */
    uint16_t exported[TESSERA_EXPORTS]; /* prints of memory given to other processes, for its importers; 0: none */
    uint64_t reaped_ns;  /* CLOCK_MONOTONIC: when a process last looked for dead ones */
    uint32_t slots_high; /* no slot from here on was ever in use; 0: not known */
    uint32_t reserved_slots;
    uint64_t limits_looked_ns; /* when a process last looked at the limits file, */
    uint64_t limits_stamp;     /* and which it saw: limits.c */
    uint8_t reserved[408];
    struct tessera_card_usage card[TESSERA_CARDS];
    struct tessera_slot slot[TESSERA_SLOTS];
    /* By card: launches, of all processes, by what each took. Of those that were measured each counts for the ones
     * before it that were not. The last has no bound; each wraps. */
    uint32_t kernel_times[TESSERA_CARDS][TESSERA_TIMES];
};

TESSERA_PIN(tessera_card_usage, uuid, 0);
TESSERA_PIN(tessera_card_usage, lock, 64);
TESSERA_PIN(tessera_card_usage, used, 68);
TESSERA_PIN(tessera_card_usage, charged_bytes, 72);
TESSERA_PIN(tessera_card_usage, peak_bytes, 80);
TESSERA_PIN(tessera_card_usage, limit_bytes, 88);
TESSERA_PIN(tessera_card_usage, denials, 96);
TESSERA_PIN(tessera_card_usage, physical_bytes, 104);
TESSERA_PIN(tessera_card_usage, wanted_bytes, 112);
TESSERA_PIN(tessera_card_usage, wanted_at_ns, 120);
TESSERA_PIN(tessera_card_usage, tokens_ns, 128);
TESSERA_PIN(tessera_card_usage, refilled_ns, 136);
TESSERA_PIN(tessera_card_usage, failed_for_others, 144);
TESSERA_PIN(tessera_card_usage, waited_for_others, 152);
TESSERA_PIN(tessera_card_usage, reserved_bucket, 160);
TESSERA_PIN(tessera_card_usage, raw_ns, 192);
TESSERA_PIN(tessera_card_usage, gpu_ns, 200);
TESSERA_PIN(tessera_card_usage, throttled_ns, 208);
TESSERA_PIN(tessera_card_usage, launches, 216);
TESSERA_PIN(tessera_card_usage, last_launch_ns, 224);
TESSERA_PIN(tessera_card_usage, generation, 232);
TESSERA_PIN(tessera_card_usage, cores_permille, 240);
TESSERA_PIN(tessera_card_usage, gain_permille, 244);
TESSERA_PIN(tessera_card_usage, longest_ns, 248);
TESSERA_PIN(tessera_card_usage, gain_at_ns, 256);
TESSERA_PIN(tessera_card_usage, gain_measured_ns, 264);
TESSERA_PIN(tessera_card_usage, gain_usage_ns, 272);
TESSERA_PIN(tessera_card_usage, balance_at_ns, 280);
TESSERA_PIN(tessera_card_usage, balance_measured_ns, 288);
TESSERA_PIN(tessera_card_usage, balance_gpu_ns, 296);
TESSERA_PIN(tessera_card_usage, reserved, 304);
TESSERA_PIN(tessera_card_usage, allocated_bytes, 408);
TESSERA_PIN(tessera_card_usage, hour_peak_bytes, 416);
TESSERA_PIN(tessera_card_usage, peak_hour, 424);
TESSERA_PIN(tessera_card_usage, reserved_memory, 432);
TESSERA_PIN(tessera_card_usage, bin, 448);
_Static_assert(sizeof(struct tessera_card_usage) == 8640, "tessera_card_usage");
TESSERA_PIN(tessera_slot, state, 0);
TESSERA_PIN(tessera_slot, pid, 4);
TESSERA_PIN(tessera_slot, started, 8);
TESSERA_PIN(tessera_slot, card, 16);
TESSERA_PIN(tessera_slot, version, 20);
TESSERA_PIN(tessera_slot, gaps, 24);
TESSERA_PIN(tessera_slot, contexts, 28);
TESSERA_PIN(tessera_slot, bytes, 32);
TESSERA_PIN(tessera_slot, gpu_ns, 96);
TESSERA_PIN(tessera_slot, launches, 104);
TESSERA_PIN(tessera_slot, throttled_ns, 112);
TESSERA_PIN(tessera_slot, denials, 120);
TESSERA_PIN(tessera_slot, last_launch_ns, 128);
TESSERA_PIN(tessera_slot, last_active_ns, 136);
TESSERA_PIN(tessera_slot, outstanding_ns, 144);
TESSERA_PIN(tessera_slot, overhead_bytes, 152);
TESSERA_PIN(tessera_slot, imported_bytes, 160);
TESSERA_PIN(tessera_slot, command, 168);
TESSERA_PIN(tessera_slot, reserved, 184);
_Static_assert(sizeof(struct tessera_slot) == 256, "tessera_slot");
TESSERA_PIN(tessera_usage, version, 64);
TESSERA_PIN(tessera_usage, slots, 68);
TESSERA_PIN(tessera_usage, exported, 72);
TESSERA_PIN(tessera_usage, reaped_ns, 3656);
TESSERA_PIN(tessera_usage, slots_high, 3664);
TESSERA_PIN(tessera_usage, reserved_slots, 3668);
TESSERA_PIN(tessera_usage, limits_looked_ns, 3672);
TESSERA_PIN(tessera_usage, limits_stamp, 3680);
TESSERA_PIN(tessera_usage, reserved, 3688);
TESSERA_PIN(tessera_usage, card, 4096);
TESSERA_PIN(tessera_usage, slot, 142336);
TESSERA_PIN(tessera_usage, kernel_times, 273408);
_Static_assert(sizeof(struct tessera_usage) == TESSERA_USAGE_SIZE, "tessera_usage");

#endif
