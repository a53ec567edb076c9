/* What the files of the simulated libcuda share: objects of this process, and the way in. */
#ifndef TESSERA_SIM_DRIVER_H
#define TESSERA_SIM_DRIVER_H

#include "../abi/cuda_abi.h"
#include "state.h"

/* Handles stay readable after they are destroyed (sim_object_free keeps the memory), so a stale one is refused, not followed. */
enum { SIM_CTX = 0x43545831, SIM_STREAM = 0x5354524d, SIM_EVENT = 0x45564e54, SIM_MODULE = 0x4d4f4455, SIM_FUNCTION = 0x46554e43,
       SIM_GRAPH = 0x47524150, SIM_NODE = 0x4e4f4445, SIM_EXEC = 0x45584543, SIM_POOL = 0x504f4f4c, SIM_ARRAY = 0x41525259,
       SIM_MIPMAP = 0x4d49504d, SIM_PHYS = 0x50485953, SIM_EXTERNAL = 0x45585445, SIM_GREEN = 0x4752454e };

typedef enum { RANGE_DEVICE, RANGE_MANAGED, RANGE_HOST, RANGE_REGISTERED, RANGE_POOL, RANGE_IPC, RANGE_MAPPED, RANGE_GRAPH, RANGE_EXTERNAL, RANGE_IMPORTED } RangeKind;

typedef struct Capture Capture;
typedef struct Phys Phys;

typedef struct { /* an allocation or mapping in this process's address space */
    CUdeviceptr base;
    size_t size;
    uint64_t held;  /* physical bytes that it keeps on its card by itself */
    bool small;     /* it shares its page with others */
    RangeKind kind;
    uint32_t card, flags;
    CUcontext ctx;
    CUmemoryPool pool;
    Phys *phys;       /* RANGE_MAPPED */
    size_t phys_offset;
    uint32_t block;   /* shared block, or SIM_NONE */
    uint64_t generation;
    unsigned opened;  /* RANGE_IPC: how often */
    uint64_t resident; /* RANGE_MANAGED: bytes on the card */
    unsigned access;
    uint64_t id;
    unsigned char *data; /* contents, once written */
} Range;

struct Phys { /* a VMM allocation */
    uint32_t magic, card;
    uint64_t bytes;
    unsigned handles, maps;
    bool host;
    unsigned devices; /* of a multicast object, which has no memory of its own; else 0 */
    uint32_t block;
    uint64_t generation;
    CUmemAllocationProp prop;
    unsigned char *data;
};

struct CUctx_st {
    uint32_t magic, card, slot;
    CUdevice device;
    uint64_t id;
    unsigned flags, api;
    bool live, primary;
    uint64_t held; /* physical bytes of the context itself */
    size_t limit[CU_LIMIT_MAX];
    CUstream legacy;
    unsigned long long peers;
};

struct CUstream_st {
    uint32_t magic, slot;
    CUcontext ctx;
    uint64_t ctx_id, id;
    unsigned flags;
    int priority;
    bool legacy;
    CUgreenCtx green;
    Capture *capture;  /* NULL: not capturing */
    CUgraphNode *deps; /* what the next captured node depends on */
    size_t dep_count;
    struct CUstream_st *next; /* all streams of the process */
};

struct CUevent_st {
    uint32_t magic, slot;
    CUcontext ctx;
    uint64_t ctx_id, recorded; /* generation of the last record; 0: never */
    unsigned flags;
    bool imported;
    Capture *capture; /* last recorded in this capture */
    uint64_t capture_id;
    CUgraphNode *deps;
    size_t dep_count;
    struct CUevent_st *next;
};

struct CUmemPoolHandle_st {
    uint32_t magic, card;
    bool is_default, host, destroyed, imported;
    CUmemPoolProps props;
    uint64_t reserved, reserved_high, used, used_high, threshold;
    int reuse[4];
    struct CUmemPoolHandle_st *next;
};

struct CUfunc_st {
    uint32_t magic;
    char name[128];
    CUmodule module;
    uint64_t ns, ns_per_wave;
    bool from_argument; /* the first kernel parameter is a uint64_t: its duration */
    int attribute[CU_FUNC_ATTRIBUTE_MAX];
    unsigned block_threads;
    CUkernel kernel; /* that stands for it */
    struct CUfunc_st *next;
};

struct CUmod_st {
    uint32_t magic;
    CUcontext ctx;
    uint64_t ctx_id, held;
    bool closed, loaded; /* closed: only the functions that its text names exist; loaded: it is on the card, and held is charged */
    struct CUfunc_st *functions;
    struct Global { char name[128]; size_t bytes; CUdeviceptr ptr; struct Global *next; } *globals;
};

typedef struct { /* one launch */
    uint64_t ns;
    uint32_t demand;
} Kernel;

/* entry.c */
CUresult sim_ready(void);                       /* every call but cuInit and a few queries starts here */
#define ENTER()                     \
    do {                            \
        CUresult not_ready = sim_ready(); \
        if (not_ready)              \
            return not_ready;       \
    } while (0)
#define NEED(pointer)               \
    do {                            \
        if (!(pointer))             \
            return CUDA_ERROR_INVALID_VALUE; \
    } while (0)
void *sim_object_new(uint32_t magic, size_t size); /* zeroed, first word = magic */
void sim_object_free(void *object, size_t size);
void sim_local_lock(void); /* lists and ranges of this process; taken before the machine's lock, never after */
void sim_local_unlock(void);
uint64_t sim_next_id(void);
extern _Thread_local unsigned sim_per_thread; /* > 0: the NULL stream is the per-thread one (inside a _ptsz or _ptds function) */

/* device.c */
CUresult sim_card_of(CUdevice device, uint32_t *card);
int sim_device_count(void);
CUresult sim_devices_load(void);
CUdevice sim_device_of_card(uint32_t card);
/* context.c */
CUresult sim_current(CUcontext *ctx);
CUresult sim_context_new(CUcontext ctx, CUdevice device, unsigned flags);
void sim_context_close(CUcontext ctx);
bool sim_context_alive(CUcontext ctx, uint64_t id);
bool sim_context_charge(CUcontext ctx, uint64_t bytes);
void sim_context_uncharge(CUcontext ctx, uint64_t id, uint64_t bytes);
CUcontext sim_primary(uint32_t card);
/* range.c: local lock held */
CUdeviceptr sim_va_take(size_t size, size_t align, bool low);
void sim_va_give(CUdeviceptr base, size_t size);
bool sim_va_ours(CUdeviceptr address);
Range *sim_range_new(RangeKind kind, CUdeviceptr base, size_t size);
Range *sim_range_at(CUdeviceptr address);
void sim_range_delete(Range *range);
void sim_ranges_walk(void (*visit)(Range *, void *), void *arg);
void sim_forget_range(Range *range); /* memory.c: gives back all that it holds */
/* data.c: local lock held */
unsigned char *sim_data(CUdeviceptr address, size_t bytes, bool write);
CUresult sim_copy(CUdeviceptr dst, void *host_dst, CUdeviceptr src, const void *host_src, size_t bytes);
bool sim_block_data(uint32_t block, size_t bytes, unsigned char **data);
/* vmm.c */
Phys *sim_phys(CUmemGenericAllocationHandle handle); /* NULL unless a handle is still open */
void sim_phys_let_go(Phys *phys); /* frees it when neither a handle nor a mapping is left; local lock held */
void sim_multicast_forget(Phys *object); /* multicast.c */
/* memory.c */
CUresult sim_alloc(CUdeviceptr *dptr, size_t bytes, RangeKind kind, bool low);
CUresult sim_alone(Range *range); /* gives a small allocation pages of its own, before they are shared; local lock held */
/* pool.c */
void sim_pools_settle(void);       /* after a synchronisation: what no pool may keep goes back */
bool sim_pools_shrink(uint32_t card); /* a card is full: unused pool memory goes back */
void sim_pool_uncharge(CUmemoryPool pool, size_t bytes);
CUresult sim_pool_charge(CUmemoryPool pool, size_t bytes);
CUmemoryPool sim_current_pool(uint32_t card);
/* stream.c */
CUresult sim_stream(CUstream handle, CUstream *stream); /* resolves NULL, legacy and per-thread handles */
CUresult sim_stream_new(CUcontext ctx, unsigned flags, int priority, bool legacy, CUstream *stream);
void sim_streams_close(CUcontext ctx);
void sim_wait_stream(CUstream stream);
void sim_wait_context(CUcontext ctx);
void sim_wait_on(SimWaitKind kind, uint32_t object, uint64_t ticket); /* takes the lock */
CUstream sim_streams(void);
CUresult sim_enqueue(CUstream stream, const Kernel *kernel); /* blocks while the context's queue is full */
CUresult sim_enqueue_nothing(CUstream stream);
/* event.c */
void sim_events_close(CUcontext ctx);
CUresult sim_host_enqueue(CUstream stream, CUhostFn fn, void *data); /* hostfunc.c */
/* user_object.c */
typedef struct Kept Kept; /* what a graph keeps alive */
Kept *sim_kept_copy(const Kept *list);
void sim_kept_drop(Kept *list);
/* module.c */
CUresult sim_module_load(CUmodule module); /* to the card, where it is not yet */
CUresult sim_module_function(CUfunction *function, CUmodule module, const char *name);
Kernel sim_kernel(CUfunction f, uint64_t gx, uint64_t gy, uint64_t gz, void **params, void **extra);
/* capture.c */
CUresult sim_unsafe(void);                   /* for calls that captures forbid; an offence ends those captures */
CUresult sim_unsafe_stream(CUstream stream); /* synchronising or querying a stream that may be capturing */
CUresult sim_legacy_use(CUstream stream);    /* work for the legacy stream beside a blocking stream that captures */
bool sim_capturing(CUstream stream, CUresult *error); /* true: the call must add a node (or fail with *error) */
CUresult sim_capture_add(CUstream stream, CUgraphNode node); /* links the node behind the stream's dependencies */
CUgraph sim_capture_graph(CUstream stream);
CUresult sim_capture_record(CUstream stream, CUevent event);
CUresult sim_capture_wait(CUstream stream, CUevent event, bool *handled);
void sim_capture_abandon(CUstream stream);
/* graph_exec.c */
CUresult sim_graph_free(Range *range); /* frees a graph's allocation from outside the graph */
void sim_graph_memory(uint32_t card, uint64_t *used, uint64_t *reserved);

#endif
