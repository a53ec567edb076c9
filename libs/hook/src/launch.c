#include "launch.h"

#include "bucket.h"
#include "capture.h"
#include "clock.h"
#include "graphs.h"
#include "lease.h"
#include "limits.h"
#include "memory.h"
#include "overhead.h"
#include "pools.h"
#include "relaxed.h"
#include "slots.h"
#include "start.h"

#define QUANTUM (20 * TS_MS)   /* longest sleep before limits are looked at again */
#define SHORTEST 500000ull     /* shortest sleep: what is slept too long is not lost */
#define FIRST_LOOK 50000ull    /* a function never measured: how long to wait for the first figure */
#define QUEUED (100 * TS_MS)   /* at the full rate; less in proportion */
#define QUEUED_OF_REST (20 * TS_MS) /* at any: an owner that comes waits for it */
#define LAST_LOOK (100 * TS_MS)

static void add_throttled(struct ts_card *card, uint64_t ns) {
    __atomic_add_fetch(&card->shared->throttled_ns, ns, __ATOMIC_RELAXED);
    __atomic_add_fetch(&card->mine->throttled_ns, ns, __ATOMIC_RELAXED);
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void wait_while_held(void) {
    while (ts_limits_flags() & (TESSERA_SUSPEND | TESSERA_HOLD_LAUNCHES)) {
        ts_sleep(5 * TS_MS);
        ts_tick();
    }
}

static uint32_t rate_of(const struct ts_card *card) {
    return __atomic_load_n(&card->rate_permille, __ATOMIC_RELAXED);
}

static int64_t owed_before(const struct tessera_card_usage *shared, int64_t own) {
    return -(__atomic_load_n(&shared->tokens_ns, __ATOMIC_RELAXED) + own);
}

/* The container was in debt when this launch came and debited its own share. It waits until what
 * was owed before it is repaid at the container's rate, and no longer: later launches have debited
 * behind it, so that all processes and threads are served in the order in which they came. */
static void throttle(struct ts_card *card, int64_t own) {
    struct tessera_card_usage *shared = card->shared;
    uint64_t now = ts_now();
    ts_bucket_fill(shared, rate_of(card), now);
    int64_t owed = owed_before(shared, own);
    __atomic_add_fetch(&card->mine->outstanding_ns, own, __ATOMIC_RELAXED);
    __atomic_add_fetch(&card->mine->throttled_outstanding_ns, own, __ATOMIC_RELAXED);
    while (owed > 0) {
        ts_spans_poll();
        uint32_t rate = rate_of(card);
        if (rate >= 1000 || __atomic_load_n(&shared->tokens_ns, __ATOMIC_RELAXED) >= 0)
            break;
        uint64_t wait = (uint64_t)owed * 1000 / rate + 1, before = now;
        wait = smaller(wait > SHORTEST ? wait : SHORTEST, QUANTUM);
        ts_lease_keep(card, wait);
        ts_sleep(wait);
        ts_tick();
        now = ts_now();
        ts_bucket_fill(shared, rate, now);
        add_throttled(card, now - before); /* as it goes by: who waits for long is seen to wait */
        owed -= (int64_t)((now - before) * rate / 1000);
        int64_t in_all = owed_before(shared, own); /* what was debited too much may have been given back */
        owed = in_all < owed ? in_all : owed;
    }
    __atomic_sub_fetch(&card->mine->throttled_outstanding_ns, own, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&card->mine->outstanding_ns, own, __ATOMIC_RELAXED);
}

/* A function whose first launch has not come back yet: launching it again and again would fill the
 * queue with work that nobody debited. Wait a little, and longer for each that went; never for ever,
 * for the one that runs may be waiting for this one. */
static void await_first(struct ts_guess *guess) {
    uint64_t since = ts_now(), step = FIRST_LOOK;
    uint32_t gone = __atomic_load_n(&guess->inflight, __ATOMIC_RELAXED);
    uint64_t most = LAST_LOOK << (gone < 1 ? 0 : gone > 7 ? 6 : gone - 1);
    while (ts_guess_is_awaited(guess) && ts_now() - since < most) {
        ts_sleep(step);
        ts_spans_poll();
        step = smaller(step * 2, 2 * TS_MS);
    }
}

static int has_rest(const struct ts_card *card) {
    return (ts_get(card->flags) & TESSERA_CARD_REST) != 0;
}

static uint64_t most_queued(const struct ts_card *card) {
    uint64_t most = QUEUED * rate_of(card) / 1000;
    return has_rest(card) ? smaller(most, QUEUED_OF_REST) : most;
}

static int is_queue_full(const struct ts_card *card) {
    return __atomic_load_n(&card->mine->outstanding_ns, __ATOMIC_RELAXED) > (int64_t)most_queued(card);
}

/* What is queued and not known to have run is debited as predicted: no more than this may be, or the
 * bucket would speak of a future that the card (which others may be using) is far from. Two launches
 * may always wait, so that the card need not. Never for ever: see await_first. */
static void await_queue(struct ts_card *card, uint64_t predicted) {
    uint64_t most = most_queued(card), since = ts_now(), step = FIRST_LOOK;
    if (most < 2 * predicted)
        most = 2 * predicted;
    while (__atomic_load_n(&card->mine->outstanding_ns, __ATOMIC_RELAXED) > (int64_t)most &&
           ts_now() - since < LAST_LOOK) {
        ts_spans_poll();
        ts_sleep(step);
        ts_spans_poll();
        step = smaller(step * 2, 2 * TS_MS);
    }
    if (ts_now() > since)
        add_throttled(card, ts_now() - since);
}

static inline void pay(struct ts_card *card, uint64_t predicted) {
    uint32_t gain = ts_get(card->shared->gain_permille);
    int64_t own = (int64_t)(gain == 1000 || !gain ? predicted : predicted * gain / 1000);
    ts_lease(card, own);
    if (ts_unlikely(ts_bucket_debit(card->shared, own) + own < 0))
        throttle(card, own);
}

static int is_captured(CUstream stream) {
    return ts_any_capture() && ts_capturing(stream);
}

void ts_launch_begin(struct ts_launch *launch, uint64_t key, CUstream stream) {
    struct ts_card *card = ts_card_current();
    launch->card = NULL;
    launch->probe.context = NULL;
    launch->free_before = 0;
    if (ts_unlikely(!card || is_captured(stream)))
        return;
    if (ts_unlikely(card->slot < 0))
        ts_slot_want(card); /* without one the container's bucket counts all the same */
    struct ts_line *line = ts_line_of(stream);
    struct ts_guess *guess = ts_guess_of(key);
    int due = ts_tick(); /* whatever runs then is measured: what it takes may have changed */
    if (ts_unlikely(due))
        ts_line_flush(card, line);
    if (ts_unlikely(ts_limits_flags() & (TESSERA_SUSPEND | TESSERA_HOLD_LAUNCHES)))
        wait_while_held();
    if (rate_of(card) < 1000 || ts_unlikely(has_rest(card))) {
        if (ts_unlikely(ts_guess_is_awaited(guess)))
            await_first(guess);
        launch->predicted = ts_guess_ns(guess);
        if (rate_of(card) < 1000)
            pay(card, launch->predicted);
        if (ts_unlikely(is_queue_full(card)))
            await_queue(card, launch->predicted);
    } else {
        launch->predicted = ts_guess_ns(guess);
    }
    launch->card = card;
    launch->line = line;
    launch->guess = guess;
    launch->stream = stream;
    ts_set(line->launches, ts_get(line->launches) + 1); /* threads may miss one of each other's; time they do not */
    __atomic_add_fetch(&line->total_ns, launch->predicted, __ATOMIC_RELAXED);
    if (ts_unlikely(ts_guess_wants(guess) || due)) {
        if ((ts_get(card->flags) & TESSERA_CARD_CHARGE_OVERHEAD) && ts_guess_is_new(guess))
            launch->free_before = ts_overhead_free(); /* it may load its code now */
        ts_line_flush(card, line);
        ts_probe_begin(&launch->probe, card, stream, line, launch->predicted);
    }
}

void ts_launch_end_slowly(struct ts_launch *launch, CUresult result) {
    if (launch->probe.context)
        ts_probe_end(&launch->probe, launch->card, launch->stream, launch->line, launch->guess, launch->predicted,
                     result);
    if (launch->free_before && result == CUDA_SUCCESS)
        ts_overhead_function(launch->card, ts_guess_function(launch->guess->key), launch->free_before);
    if (result == CUDA_SUCCESS)
        return;
    if (rate_of(launch->card) < 1000) /* nothing runs: give it back */
        ts_bucket_debit(launch->card->shared, -(int64_t)ts_gained(launch->card, launch->predicted));
    ts_account(launch->card, -(int64_t)launch->predicted);
}

#define LAUNCH(key, stream, call)               \
    do {                                        \
        struct ts_launch launch;                \
        ts_launch_begin(&launch, key, stream);  \
        CUresult r = call;                      \
        ts_launch_end(&launch, r);              \
        return r;                               \
    } while (0)

/* The legacy names launch on the legacy stream where none is named, the twins on the thread's own. */
#define LAUNCH_WRAPPERS(suffix, none)                                                                                 \
    CUresult cuLaunchKernel##suffix(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, \
                                    unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,           \
                                    void **params, void **extra) {                                                    \
        TS_ENTER(cuLaunchKernel##suffix, (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra));                 \
        LAUNCH(ts_guess_kernel(f, gx, gy, gz), stream ? stream : none,                                                \
               real.cuLaunchKernel##suffix(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra));                \
    }                                                                                                                 \
    CUresult cuLaunchKernelEx##suffix(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {      \
        TS_ENTER(cuLaunchKernelEx##suffix, (config, f, params, extra));                                               \
        if (!config)                                                                                                  \
            return real.cuLaunchKernelEx##suffix(config, f, params, extra);                                           \
        LAUNCH(ts_guess_kernel(f, config->gridDimX, config->gridDimY, config->gridDimZ),                              \
               config->hStream ? config->hStream : none, real.cuLaunchKernelEx##suffix(config, f, params, extra));    \
    }                                                                                                                 \
    CUresult cuLaunchCooperativeKernel##suffix(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,       \
                                               unsigned int bx, unsigned int by, unsigned int bz,                     \
                                               unsigned int shared, CUstream stream, void **params) {                 \
        TS_ENTER(cuLaunchCooperativeKernel##suffix, (f, gx, gy, gz, bx, by, bz, shared, stream, params));             \
        LAUNCH(ts_guess_kernel(f, gx, gy, gz), stream ? stream : none,                                                \
               real.cuLaunchCooperativeKernel##suffix(f, gx, gy, gz, bx, by, bz, shared, stream, params));            \
    }                                                                                                                 \
    CUresult cuGraphLaunch##suffix(CUgraphExec exec, CUstream stream) {                                               \
        TS_ENTER(cuGraphLaunch##suffix, (exec, stream));                                                              \
        struct ts_launch launch;                                                                                      \
        ts_launch_begin(&launch, ts_guess_graph(exec), stream ? stream : none);                                       \
        CUresult r = ts_pools_have_graphs() && launch.card                                                            \
                         ? ts_graph_run(exec, stream, real.cuGraphLaunch##suffix)                                     \
                         : real.cuGraphLaunch##suffix(exec, stream);                                                  \
        ts_launch_end(&launch, r);                                                                                    \
        return r;                                                                                                     \
    }

LAUNCH_WRAPPERS(, NULL)
LAUNCH_WRAPPERS(_ptsz, CU_STREAM_PER_THREAD)

/* One launch per device, each counted in the context of its stream. */
static int enter(CUstream stream) {
    CUcontext context = NULL;
    return (uintptr_t)stream > 2 && real.cuStreamGetCtx && real.cuCtxPushCurrent_v2 && real.cuCtxPopCurrent_v2 &&
           real.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS && real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

static void leave(int entered) {
    CUcontext popped;
    if (entered)
        real.cuCtxPopCurrent_v2(&popped);
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags) {
    TS_ENTER(cuLaunchCooperativeKernelMultiDevice, (list, count, flags));
    struct ts_launch launch[TESSERA_CARDS];
    if (!list || !count || count > TESSERA_CARDS) /* nobody was granted more */
        return real.cuLaunchCooperativeKernelMultiDevice(list, count, flags);
    for (unsigned i = 0; i < count; i++) {
        int entered = enter(list[i].hStream);
        ts_launch_begin(&launch[i], ts_guess_kernel(list[i].function, list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ),
                        list[i].hStream);
        leave(entered);
    }
    CUresult r = real.cuLaunchCooperativeKernelMultiDevice(list, count, flags);
    for (unsigned i = 0; i < count; i++) {
        int entered = enter(list[i].hStream);
        ts_launch_end(&launch[i], r);
        leave(entered);
    }
    return r;
}

CUresult cuLaunch(CUfunction f) {
    TS_ENTER(cuLaunch, (f));
    LAUNCH(ts_guess_kernel(f, 1, 1, 1), NULL, real.cuLaunch(f));
}

CUresult cuLaunchGrid(CUfunction f, int width, int height) {
    TS_ENTER(cuLaunchGrid, (f, width, height));
    LAUNCH(ts_guess_kernel(f, (unsigned)width, (unsigned)height, 1), NULL, real.cuLaunchGrid(f, width, height));
}

CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
    TS_ENTER(cuLaunchGridAsync, (f, width, height, stream));
    LAUNCH(ts_guess_kernel(f, (unsigned)width, (unsigned)height, 1), stream,
           real.cuLaunchGridAsync(f, width, height, stream));
}
