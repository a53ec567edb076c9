#include "start.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "contexts.h"
#include "lease.h"
#include "ledger.h"
#include "limits.h"
#include "lock.h"
#include "log.h"
#include "mount.h"
#include "points.h"
#include "pools.h"
#include "relaxed.h"
#include "route.h"
#include "slots.h"
#include "spans.h"
#include "usage_map.h"

_Alignas(TS_LARGEST_PAGE) union ts_state_page ts_state;
int ts_active TS_HOT;
uint64_t ts_ticked TS_HOT;

static ts_lock guard;
static int limits_ready, fork_ready;
static uint64_t passed TS_HOT; /* ts_passing() at the last tick */
static uint64_t checked TS_HOT, looked TS_HOT; /* when usage file and other processes were last checked, and when by us */
static __thread int starting __attribute__((tls_model("initial-exec")));

#define CHECK_NS (100 * TS_MS)
#define OWN_NS (500 * TS_MS)

/* CUDA does not survive fork: the child holds nothing and starts anew if it ever calls us. */
static void in_child(void) {
    ts_usage_not_inherited();
    ts_limits_reset();
    ts_cards_reset();
    ts_ledger_reset();
    ts_spans_reset();
    ts_pools_reset();
    ts_contexts_reset();
    guard.word = 0;
    limits_ready = 0;
    ts_active = 0;
    starting = 0;
    ts_state_cuda = ts_state_nvml = 0;
}

/* _Fork and clone call no handlers, and the usage file is not mapped in the child. Nor is a fork's own
 * handler there yet while another thread begins: so the page is wiped in children before anything is
 * written to it, and where the kernel cannot (before 4.14) the number tells whose thread it is that begins. */
static void notice_fork(void) {
    int *begun = &ts_state.is.begun, me = (int)getpid(), seen = __atomic_load_n(begun, __ATOMIC_ACQUIRE);
    if (seen == TS_BEGUN)
        return;
    (void)madvise(&ts_state, sizeof ts_state, MADV_WIPEONFORK);
    for (; seen != TS_BEGUN; seen = __atomic_load_n(begun, __ATOMIC_ACQUIRE)) {
        if (seen == me) {
            ts_pause(); /* for another thread */
        } else if (__atomic_compare_exchange_n(begun, &seen, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            ts_point("start: begins");
            in_child(); /* whatever the parent's threads held */
            __atomic_store_n(begun, TS_BEGUN, __ATOMIC_RELEASE);
            return;
        }
    }
}

/* Limits and usage file, once per process. */
static void start_limits(void) {
    if (limits_ready)
        return;
    limits_ready = 1;
    if (!fork_ready)
        fork_ready = !pthread_atfork(NULL, NULL, in_child);
    for (uint32_t i = 0; i < TESSERA_CARDS; i++)
        ts_cards[i].slot = -1;
    if (ts_limits_start() == TS_NO_LIMITS)
        return;
    if (!ts_usage_open(ts_limits_usage_path()))
        ts_gap(TESSERA_GAP_PRIVATE);
    ts_active = ts_usage() != NULL;
}

/* The libraries are opened without our lock: the loader has its own, and a constructor that runs
 * under that one may be calling us from another thread. Loading twice stores the same pointers. */
static void start(int *state, void (*load)(void)) {
    notice_fork();
    if (starting) /* the driver's own initialisation came back to us */
        return;
    starting = 1;
    load();
    ts_mount_look();
    ts_lock_take(&guard);
    ts_point("start: locked");
    if (*state != 2) {
        start_limits();
        ts_route_index();
        __atomic_store_n(state, 2, __ATOMIC_RELEASE);
    }
    ts_lock_give(&guard);
    starting = 0;
}

void ts_start_cuda(void) {
    if (__atomic_load_n(&ts_state_cuda, __ATOMIC_ACQUIRE) != 2)
        start(&ts_state_cuda, ts_real_load_cuda);
}

void ts_start_nvml(void) {
    if (__atomic_load_n(&ts_state_nvml, __ATOMIC_ACQUIRE) != 2)
        start(&ts_state_nvml, ts_real_load_nvml);
}

static void build_again(void) {
    ts_log(TS_LOG_WARNING, "the usage file was removed, replaced or damaged: building it again");
    ts_lock_take(&guard);
    ts_usage_open(ts_limits_usage_path());
    ts_cards_attach();
    ts_lock_give(&guard);
}

/* One process looks for all, at the file and for the dead; each looks at its own descriptor now and then. */
static void check_others(uint64_t now) {
    int own = now - ts_get(looked) >= OWN_NS, ours = ts_slots_reap_in_turn(CHECK_NS);
    if (own)
        ts_set(looked, now);
    if (own || ours ? !ts_usage_intact() : !ts_usage_current())
        build_again();
    for (uint32_t i = 0; i < ts_card_count(); i++)
        if (ts_cards[i].shared) {
            ts_lease_look(&ts_cards[i]);
            ts_limits_compare(&ts_cards[i]);
        }
}

TS_OFTEN static void tick(int anyway) {
    uint64_t now = ts_passing();
    ts_set(ts_ticked, ts_coarse());
    ts_limits_refresh(anyway);
    if (now - ts_get(checked) >= CHECK_NS) {
        ts_set(checked, now);
        check_others(now);
    }
    if (__atomic_load_n(&ts_state_cuda, __ATOMIC_ACQUIRE) == 2)
        ts_pools_settle();
}

void ts_tick_now(void) {
    tick(1);
}

TS_OFTEN int ts_tick(void) {
    uint64_t now = ts_passing(), last = __atomic_load_n(&passed, __ATOMIC_RELAXED);
    if (now - last < TS_TICK_NS ||
        !__atomic_compare_exchange_n(&passed, &last, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return 0;
    tick(0);
    return 1;
}

/* Linked without the start files, so that there is nothing to run when the library is loaded. What
 * they would have defined, and pthread_atfork wants: */
extern void *__dso_handle;
__attribute__((weak)) void *__dso_handle TS_HIDDEN = &__dso_handle;
