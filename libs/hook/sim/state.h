/* The simulated machine: one file, mapped by every process that loads the simulated libcuda or NVML.
 *
 * Everything here is guarded by one robust lock. A process may be killed at any instruction: whatever is stored must either be
 * authoritative on its own (a slot with its state word, written last) or be rebuilt from what is (card totals, queues: recover.c). */
#ifndef TESSERA_SIM_STATE_H
#define TESSERA_SIM_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_CARDS = 16,
    SIM_PROCS = 256,
    SIM_THREADS = 1024,
    SIM_CONTEXTS = 1024,
    SIM_STREAMS = 8192,
    SIM_EVENTS = 65536,
    SIM_OPS = 65536,
    SIM_BLOCKS = 4096,
    SIM_SAMPLES = 256,
    SIM_PENDING = 1024, /* unfinished operations per context before a launch blocks (assumed: the real queue holds about 1,024) */
    SIM_FULL = 1024     /* demand of a kernel that fills the card */
};
#define SIM_NONE UINT32_MAX
#define SIM_MAGIC UINT64_C(0x6d69735f61726574)
#define SIM_LAYOUT 3u
#define SIM_GRANULE (UINT64_C(2) << 20) /* physical granularity of VMM allocations */

typedef enum { SIM_CLOCK_REAL, SIM_CLOCK_SCALED, SIM_CLOCK_VIRTUAL } SimClockMode;

typedef struct {
    char name[96];
    unsigned char uuid[16];
    uint32_t pci_domain, pci_bus, pci_device;
    uint32_t sms, minor;
    uint32_t numa;
    int32_t capability;      /* 10 * major + minor */
    int32_t compute_mode;
    uint32_t mig;            /* slices that the card is cut into; 0: MIG is off */
    uint32_t parent, slice;  /* of a slice: its card, and which one it is; else SIM_NONE */
    uint64_t bytes, reserved; /* reserved: taken by the driver itself, seen in NVML only */
} SimCardConfig;

typedef struct {
    uint32_t cards, cuda_version;
    char driver_version[32];
    uint32_t clock, scale;      /* scaled: virtual nanoseconds per real one */
    uint64_t slice_ns;          /* time slice between contexts; a switch itself costs nothing (assumed) */
    uint64_t sample_ns;         /* period of utilisation samples */
    uint64_t context_bytes;     /* every context */
    uint64_t context_most;      /* and up to so much, by process */
    uint64_t module_bytes;      /* every loaded module without a size of its own */
    uint64_t alloc_granule;     /* cuMemAlloc takes pages of this; what is below half of one shares them */
    uint64_t pool_chunk;        /* pools grow by this */
    uint64_t data_bytes;        /* contents of longer writes are not kept */
    uint64_t kernel_ns;         /* kernels that state no duration */
    uint64_t nameless;          /* 1: the driver does not give the UUIDs of its cards */
    uint64_t thunks;            /* 1: cuGetProcAddress answers with addresses of its own */
    uint64_t lazy;              /* 1: code is on the card from its first use on, not from its loading */
    uint64_t mps;               /* 1: contexts of all processes run side by side, and NVML does not tell them apart */
    uint64_t bias;              /* 1: NVML counts a process as busy while it has a kernel on the card, in its turn or not */
    uint64_t accounting;        /* 1: NVML's accounting is on */
    uint64_t multicast;         /* 1: cards have multicast objects */
    uint64_t cig;               /* 1: a graphics API draws on the cards, and takes captures */
    uint32_t participants;      /* virtual time stands still until so many threads have joined */
    SimCardConfig card[SIM_CARDS];
} SimConfig;

typedef struct {
    uint64_t time_us;
    uint32_t proc, pid, percent;
} SimSample;

typedef struct {
    uint64_t used;     /* physical bytes, cached: the sum over processes and blocks */
    uint64_t now;      /* how far its timeline has run */
    uint64_t slice_left;
    uint32_t context;  /* whose slice it is, or SIM_NONE */
    uint32_t runnable; /* contexts with work at the last step */
    uint64_t busy_ns, sample_end, sample_busy;
    uint32_t last_percent, sample_at, active_count, reserved;
    SimSample sample[SIM_SAMPLES];
    uint16_t active[SIM_STREAMS]; /* streams with queued operations */
} SimCard;

typedef struct {
    uint32_t live, pid; /* as its own namespace numbers it */
    uint64_t space;     /* that namespace */
    uint64_t used[SIM_CARDS];
    uint64_t busy_ns[SIM_CARDS], sample_busy[SIM_CARDS];
    uint64_t launches;
} SimProc;

typedef enum { SIM_WAIT_NONE, SIM_WAIT_TIME, SIM_WAIT_STREAM, SIM_WAIT_EVENT, SIM_WAIT_ROOM, SIM_WAIT_HOST } SimWaitKind;

typedef struct {
    uint32_t live, proc;
    uint32_t joined;     /* virtual time does not pass while it runs */
    uint32_t background; /* its waiting alone does not make time pass */
    uint32_t kind;       /* SimWaitKind */
    uint32_t object;
    uint64_t ticket;     /* time, sequence number or generation waited for */
    uint32_t wake;       /* futex */
    uint32_t reserved;
} SimThread;

typedef struct {
    uint32_t live, proc, card, pending;
} SimContext;

typedef struct {
    uint32_t live, context;
    uint32_t blocking, legacy; /* blocking: ordered against the legacy stream of its context */
    uint32_t head, tail;
    uint32_t active_at, legacy_slot;
    uint64_t issued, done;     /* sequence numbers */
} SimStream;

typedef struct {
    uint32_t live, proc;
    uint64_t issued, done; /* generations: one per record */
    uint64_t time_ns;
} SimEvent;

typedef enum { SIM_OP_KERNEL = 1, SIM_OP_RECORD, SIM_OP_WAIT, SIM_OP_HOST, SIM_OP_NOTHING } SimOpKind;

typedef struct {
    uint32_t live, kind, stream, next;
    uint32_t event, demand;
    uint64_t sequence, left_ns, generation;
    uint64_t fn, data; /* host function, in the address space of the stream's process */
} SimOp;

typedef struct {
    uint32_t live, card;
    uint64_t bytes, generation;
    uint32_t creator, reserved;
    uint32_t references[SIM_PROCS];
} SimBlock;

typedef struct {
    uint64_t magic;
    uint32_t layout, size_words;
    pthread_mutex_t lock;
    SimConfig config;
    uint64_t origin_ns;        /* monotonic time of the start */
    uint64_t origin_us;        /* wall time of the start, for NVML's time stamps */
    uint64_t virtual_now;
    uint64_t sequence, generation;
    uint32_t threads_high, procs_high;
    uint32_t started, reserved; /* started: the participants were complete once */
    uint32_t free_op, free_event, ops_high, events_high;
    uint64_t recoveries;
    SimCard card[SIM_CARDS];
    SimProc proc[SIM_PROCS];
    SimThread thread[SIM_THREADS];
    SimContext context[SIM_CONTEXTS];
    SimStream stream[SIM_STREAMS];
    SimEvent event[SIM_EVENTS];
    SimOp op[SIM_OPS];
    SimBlock block[SIM_BLOCKS];
} SimState;

extern SimState *sim; /* NULL until sim_open() */

/* state.c */
bool sim_open(void);
const char *sim_state_path(void);
void sim_lock(void);
void sim_unlock(void);
void sim_kill_point(void); /* dies here when TESSERA_SIM_KILL_AT says so; only called with the lock held */
/* config.c */
void sim_config_load(SimConfig *config);
/* visible.c */
enum { SIM_UUID_TEXT = 48 };
void sim_uuid_text(uint32_t card, char text[SIM_UUID_TEXT]);
uint32_t sim_choose(const char *word, size_t length, const uint32_t *cards, uint32_t count); /* by index or UUID prefix; SIM_NONE */
uint32_t sim_visible(uint32_t cards[SIM_CARDS]);                                             /* how many */
/* process.c */
bool sim_process_attach(void); /* takes a slot for this process: libcuda only */
uint32_t sim_process(void);
uint64_t sim_pid_space(void);           /* the pid namespace of this process */
uint32_t sim_pid_seen(uint32_t proc);   /* the number of that process as this one sees it; 0: not at all */
void sim_sweep(void);            /* reclaims what dead processes held; lock held */
void sim_sweep_for_reader(void); /* the same for a query; of many processes not in every call; lock held */
void sim_reclaim(uint32_t proc);
/* recover.c */
void sim_recover(void);
/* physical.c: all take the lock themselves */
bool sim_take(uint32_t card, uint64_t bytes);
void sim_give(uint32_t card, uint64_t bytes);
uint64_t sim_capacity(uint32_t card);
void sim_used(uint32_t card, uint64_t *used);
void sim_sum_used(uint32_t card); /* lock held */
/* block.c */
uint32_t sim_block_share(uint32_t card, uint64_t bytes, uint64_t *generation); /* turns bytes of this process into a shared block */
bool sim_block_hold(uint32_t block, uint64_t generation, uint32_t *card, uint64_t *bytes);
void sim_block_drop(uint32_t block);
uint32_t sim_block_holder(const SimBlock *block);
void sim_block_path(uint32_t block, char *path, size_t size);
/* queue.c: lock held */
SimOp *sim_push(uint32_t stream, SimOpKind kind);
void sim_pop(uint32_t stream);
uint32_t sim_new_context(uint32_t card);
uint32_t sim_new_stream(uint32_t context, bool blocking, uint32_t legacy_slot);
uint32_t sim_new_event(void);
void sim_drop_stream(uint32_t stream);
void sim_drop_event(uint32_t event);
/* timeline.c: lock held */
void sim_advance(uint32_t card, uint64_t until);
uint64_t sim_next_change(uint32_t card); /* UINT64_MAX: idle */
void sim_catch_up(uint32_t card);        /* to the present */
bool sim_stream_may_run(const SimStream *stream, const SimOp *head);
/* samples.c: lock held */
typedef struct { /* processes: those that run, and those with a kernel on the card at all (kept for bias=1 only) */
    uint32_t running, resident;
    uint16_t runs[SIM_PROCS], here[SIM_PROCS];
} SimBusy;
void sim_account(uint32_t card, const SimBusy *busy, uint64_t from, uint64_t until); /* NULL: nothing runs */
/* clock.c */
uint64_t sim_now(void); /* nanoseconds since the machine started */
/* wait.c */
void sim_wait(SimWaitKind kind, uint32_t object, uint64_t ticket, bool background); /* lock held, and held again on return */
void sim_poll(void); /* lock held: a query that found nothing costs a microsecond of virtual time, or a loop of them would never end */
void sim_thread_join(bool background);
void sim_thread_leave(void);
bool sim_satisfied(const SimThread *thread);
void sim_notify(void);                    /* wakes whoever waited for what has happened; lock held */
void sim_advance_virtual(uint64_t until); /* lock held */

#endif
