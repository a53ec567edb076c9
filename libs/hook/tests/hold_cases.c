/* What the agent can do to a running container: hold it, suspend it, lend to it; and how far ahead of
 * the card a program may run. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#define MS 1000000ull
#define JOIN() ((void (*)(void))(uintptr_t)driver_get("cuSimJoin"))()
#define LEAVE() ((void (*)(void))(uintptr_t)driver_get("cuSimLeave"))()

/* `words` before the card: the flags of the container. */
static void whole_limits(const char *words, const char *card) {
    char command[1536], uuid[64];
    uuid_of(0, uuid);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s/tessera-limits %s/limits %s card=%s %s", getenv("TEST_BUILD"), dir(),
             words, uuid, card);
    EQUAL(system(command), 0);
}

static uint64_t launches_of(pid_t pid) {
    return ((uint64_t(*)(int))(uintptr_t)driver_get("cuSimLaunches"))(pid);
}

static void launch_for_ever(void *unused) {
    (void)unused;
    begin();
    CUfunction f = kernel(100000);
    for (;;) {
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    }
}

/* Something that a child does again and again. */
struct doing {
    uint64_t (*done)(const struct doing *);
    pid_t pid;
    long *count;
    uint64_t last;
};

static uint64_t launches_done(const struct doing *doing) { return launches_of(doing->pid); }
static uint64_t allocations_done(const struct doing *doing) {
    return (uint64_t)__atomic_load_n(doing->count, __ATOMIC_RELAXED);
}

static int goes_on(void *with) {
    struct doing *doing = with;
    return doing->done(doing) > doing->last + 20;
}

/* Nothing in 100 ms, while the child could have done much. */
static int stands_still(void *with) {
    struct doing *doing = with;
    uint64_t before = doing->done(doing);
    usleep(100000);
    return doing->done(doing) == before;
}

static void expect(struct doing *doing, const char *flags, const char *card, int going) {
    whole_limits(flags, card);
    doing->last = doing->done(doing);
    CHECK(until(going ? goes_on : stands_still, doing));
}

TEST(a_suspension_ends_when_the_agent_is_gone, "memory=1024 cores=50", NULL) {
    struct doing doing = {.done = launches_done, .pid = child(launch_for_ever, NULL)};
    CU(cuInit)(0);
    expect(&doing, "flags=0", "memory=1024 cores=50", 1);
    whole_limits("flags=1 suspend_ms=1500", "memory=1024 cores=50");
    CHECK(until(stands_still, &doing));
    doing.last = doing.done(&doing);
    CHECK(until(goes_on, &doing)); /* and nobody wrote */
    EQUAL(kill(doing.pid, SIGKILL), 0);
    wait_for(doing.pid);
}

TEST(held_launches_stop_and_go_on, "memory=1024 cores=50", NULL) {
    struct doing doing = {.done = launches_done, .pid = child(launch_for_ever, NULL)};
    CU(cuInit)(0);
    expect(&doing, "flags=0", "memory=1024 cores=50", 1);
    expect(&doing, "flags=2", "memory=1024 cores=50", 0); /* a more important neighbour is busy */
    expect(&doing, "flags=0", "memory=1024 cores=50", 1);
    expect(&doing, "flags=1", "memory=1024 cores=50", 0); /* suspended */
    expect(&doing, "", "memory=1024 cores=50", 1);
    CHECK(usage()->slot[0].last_launch_ns > 0);
    kill(doing.pid, SIGKILL);
    wait_for(doing.pid);
}

static uint64_t hold_until(void) {
    static struct tessera_limits limits;
    char path[512];
    snprintf(path, sizeof path, "%s/limits", dir());
    int fd = open(path, O_RDONLY);
    EQUAL(pread(fd, &limits, sizeof limits, 0), sizeof limits);
    close(fd);
    return limits.hold_until_ns;
}

static uint64_t real_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

/* Nobody changes the file when the hold is over; a busy machine may need a longer one to see it. */
TEST(holds_end_by_themselves, "memory=1024", "clock=virtual") {
    begin();
    CUfunction f = kernel(MS);
    int waited = 0;
    for (int ms = 100; ms < 60000 && !waited; ms *= 4) {
        char flags[64];
        snprintf(flags, sizeof flags, "flags=2 hold_ms=%d", ms);
        whole_limits(flags, "memory=1024");
        sim_sleep(30 * MS); /* the limits are looked at again */
        uint64_t since = sim_now();
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
        CHECK(real_ns() >= hold_until());
        waited = sim_now() - since >= 5 * MS;
    }
    CHECK(waited);
}

TEST(only_a_hold_ends_not_a_suspension, "memory=1024", NULL) {
    struct doing doing = {.done = launches_done, .pid = child(launch_for_ever, NULL)};
    CU(cuInit)(0);
    expect(&doing, "flags=2 hold_ms=0", "memory=1024", 1);
    expect(&doing, "flags=2 hold_ms=600000", "memory=1024", 0);
    expect(&doing, "flags=2 hold_ms=0", "memory=1024", 1);
    expect(&doing, "flags=3 hold_ms=0", "memory=1024", 0);
    kill(doing.pid, SIGKILL);
    wait_for(doing.pid);
}

static void allocate_for_ever(void *count) {
    begin();
    for (;;) {
        CUdeviceptr p;
        EQUAL(allocate(1, &p), 0);
        EQUAL(CU(cuMemFree_v2)(p), 0);
        __atomic_add_fetch((long *)count, 1, __ATOMIC_RELAXED);
    }
}

TEST(suspended_allocations_wait_and_held_ones_do_not, "memory=1024", NULL) {
    long *count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(count != MAP_FAILED);
    struct doing doing = {.done = allocations_done, .pid = child(allocate_for_ever, count), .count = count};
    expect(&doing, "flags=0", "memory=1024", 1);
    expect(&doing, "flags=1", "memory=1024", 0);
    expect(&doing, "flags=2", "memory=1024", 1);
    kill(doing.pid, SIGKILL);
    wait_for(doing.pid);
}

/* A neighbour's idle time is lent by the agent for a while and taken back. */
static double percent_for(CUfunction f, uint64_t ns) {
    uint64_t start = sim_now(), busy = sim_busy(getpid());
    while (sim_now() - start < ns) {
        EQUAL(CU(cuLaunchKernel)(f, 64, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    }
    return 100.0 * (double)(sim_busy(getpid()) - busy) / (double)(sim_now() - start);
}

TEST(what_the_agent_lends_is_used_and_given_back, "cores=20 mode=elastic", "clock=virtual") {
    begin();
    CUfunction f = kernel(MS);
    double own = percent_for(f, 3000 * MS);
    set_limits("cores=20 mode=elastic lent=500 lent_ms=60000");
    usleep(150000);
    percent_for(f, 200 * MS);
    double lent = percent_for(f, 2000 * MS);
    set_limits("cores=20 mode=elastic");
    usleep(150000);
    percent_for(f, 1000 * MS); /* within one second */
    double back = percent_for(f, 3000 * MS);
    fprintf(stderr, "    own %.1f, with the loan %.1f, after it %.1f %%\n", own, lent, back);
    CHECK(own > 18.5 && own < 21.5 && lent > 68 && lent < 71 && back > 19 && back < 21);
}

TEST(a_loan_is_nothing_in_hard_mode, "cores=20 mode=hard lent=500 lent_ms=60000", "clock=virtual") {
    begin();
    CUfunction f = kernel(MS);
    percent_for(f, 500 * MS);
    double got = percent_for(f, 2000 * MS);
    CHECK(got > 19 && got < 21);
}

/* Neighbours without limits take three quarters of the card. The agent measures what is left for us,
 * far below the limit: nothing else would keep the queue from growing. */
TEST(a_program_runs_only_so_far_ahead_of_the_card, "cores=90", "clock=virtual participants=4") {
    pid_t hogs[3];
    for (int i = 0; i < 3; i++) {
        hogs[i] = fork();
        if (hogs[i] == 0) {
            setenv("TESSERA_LIMITS", "/dev/null/none", 1);
            begin();
            CUfunction f = kernel(5 * MS);
            JOIN();
            for (uint64_t end = sim_now() + 6000 * MS; sim_now() < end;) {
                CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
                CU(cuStreamSynchronize)(NULL);
            }
            _exit(0);
        }
    }
    begin();
    CUfunction f = kernel(MS);
    JOIN();
    int64_t worst = 0;
    uint64_t measured = sim_now();
    for (uint64_t end = sim_now() + 4000 * MS; sim_now() < end;) {
        if (sim_now() - measured > 300 * MS) {
            char words[160];
            measured = sim_now();
            snprintf(words, sizeof words, "cores=90 measured=%llu measured_usage=%llu", (unsigned long long)sim_busy(getpid()),
                     (unsigned long long)usage()->card[0].raw_ns);
            set_limits(words);
        }
        EQUAL(CU(cuLaunchKernel)(f, 64, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL), 0);
        int64_t queued = usage()->slot[0].outstanding_ns;
        worst = queued > worst ? queued : worst;
    }
    uint64_t from = sim_now();
    EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    double drained = (double)(sim_now() - from) / 1e6;
    LEAVE();
    fprintf(stderr, "    at most %.1f ms queued, %.1f ms to drain\n", (double)worst / 1e6, drained);
    CHECK(worst < (int64_t)(110 * MS) && drained < 600);
    for (int i = 0; i < 3; i++)
        wait_for(hogs[i]);
}

/* The log: silent by default; the agent or the environment makes it speak. */
static size_t logged(const char *words, const char *level) {
    char path[512], text[8192] = "";
    snprintf(path, sizeof path, "%s/log", dir());
    setenv("TESSERA_LOG_FILE", path, 1);
    if (level)
        setenv("TESSERA_LOG_LEVEL", level, 1);
    whole_limits(words, "memory=64");
    begin();
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    int fd = open(path, O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text - 1) < 0)
        text[0] = 0;
    return strstr(text, "refused") ? strlen(text) : 0;
}
TEST(the_log_is_silent_about_refusals_by_default, "memory=64", NULL) { EQUAL(logged("", NULL), 0); }
TEST(the_limits_file_says_how_much_is_logged, "memory=64", NULL) { CHECK(logged("log=3", NULL) > 0); }
TEST(the_environment_wins_over_the_limits_file_about_the_log, "memory=64", NULL) { EQUAL(logged("log=3", "1"), 0); }

/* With another preloaded library behind us, its RTLD_NEXT must not lead back to itself. */
TEST(rtld_next_is_relative_to_the_caller, "memory=64", NULL) {
    char both[1200];
    if (!getenv("TEST_INTERPOSED")) {
        snprintf(both, sizeof both, "%s:%s/interposer.so", getenv("LD_PRELOAD"), getenv("TEST_BUILD"));
        setenv("LD_PRELOAD", both, 1);
        setenv("TEST_INTERPOSED", "1", 1);
        execl("/proc/self/exe", "cases", "x", (char *)NULL);
    }
    CHECK(getppid() > 10000000);
    begin();
    EQUAL(allocate(65, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}
