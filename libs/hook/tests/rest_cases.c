/* Containers whose limit is only what the owners of a card leave: an agent looks at the owners twenty times a
 * second and lends the rest, as the real one does. */
#include <string.h>

#include "tenants.h"

#define MS 1000000ull
#define LOOK_MS 50
#define MEASURE_MS 500
#define IDLE_MS 500 /* so long without a launch, and what an owner has is lent */
#define FULL 1000u

struct world {
    struct tenant *tenant;
    int count;
    unsigned now_ms;
    uint64_t launches[TENANTS];
    unsigned launched_ms[TENANTS];
};

/* Owners that launch have all of theirs, whatever they use of it. */
static unsigned claimed(struct world *w) {
    unsigned sum = 0;
    for (int i = 0; i < w->count; i++) {
        uint64_t launches = tenant_usage(i).launches;
        if (launches != w->launches[i])
            w->launched_ms[i] = w->now_ms;
        w->launches[i] = launches;
        if (!w->tenant[i].rest && launches && w->now_ms - w->launched_ms[i] < IDLE_MS)
            sum += w->tenant[i].cores * 10;
    }
    return sum < FULL ? sum : FULL;
}

/* In proportion to the weights. */
static void look(struct world *w) {
    unsigned left = FULL - claimed(w), weights = 0;
    int measures = w->now_ms % MEASURE_MS == 0;
    for (int i = 0; i < w->count; i++)
        weights += w->tenant[i].rest;
    for (int i = 0; i < w->count; i++) {
        struct tenant *tenant = &w->tenant[i];
        unsigned lent = tenant->rest ? left * (unsigned)tenant->rest / weights : 0;
        if (lent != tenant->lent || measures) {
            tenant->lent = lent;
            tenant_limits(i, tenant, measures ? tenant_busy(tenant) : 0);
        }
    }
}

static void pass(struct world *w, unsigned until_ms) {
    for (; w->now_ms < until_ms; w->now_ms += LOOK_MS) {
        look(w);
        sim_sleep(LOOK_MS * MS);
    }
}

/* Percent of the card that each had between two moments; the agent goes on looking. */
static void shares(struct world *w, unsigned from_ms, unsigned until_ms, double share[TENANTS]) {
    uint64_t busy[TENANTS];
    pass(w, from_ms);
    for (int i = 0; i < w->count; i++)
        busy[i] = tenant_busy(&w->tenant[i]);
    pass(w, until_ms);
    for (int i = 0; i < w->count; i++)
        share[i] = 100.0 * (double)(tenant_busy(&w->tenant[i]) - busy[i]) / (double)((until_ms - from_ms) * MS);
    for (int i = 0; i < w->count; i++)
        fprintf(stderr, "    %5u to %5u ms: %s %d had %.2f %%\n", from_ms, until_ms, w->tenant[i].rest ? "best effort" : "owner",
                i, share[i]);
}

static struct world begun(struct tenant *tenant, int count, unsigned seconds) {
    tenants_start(tenant, count, seconds);
    return (struct world){.tenant = tenant, .count = count};
}

#define OFF_MS 200 /* from an owner's first launch on */

/* All of an idle card, nothing 200 ms after the owner's first launch, and all of it again. */
static void yields(uint64_t kernel_ns, int async, unsigned processes) {
    double share[TENANTS];
    struct tenant t[] = {{.cores = 100, .kernel_ns = 2 * MS, .from_ms = 5025, .until_ms = 9025},
                         {.rest = 1, .kernel_ns = kernel_ns, .async = async, .processes = processes}};
    struct world w = begun(t, 2, 13);
    shares(&w, 1000, 5000, share);
    CHECK(share[1] > 97);
    shares(&w, 5025 + OFF_MS, 6025 + OFF_MS, share);
    CHECK(share[1] < 2 && share[0] > 97);
    shares(&w, 9025 + IDLE_MS + LOOK_MS + OFF_MS, 12500, share);
    CHECK(share[1] > 97);
    tenants_end(t, 2);
}
TEST(best_effort_yields_to_an_owner_and_comes_back, NULL, "clock=virtual participants=3") { yields(MS, 0, 1); }
TEST(best_effort_yields_with_a_queue, NULL, "clock=virtual participants=3") { yields(MS, 1, 1); }
TEST(best_effort_yields_with_kernels_of_10_ms, NULL, "clock=virtual participants=3") { yields(10 * MS, 1, 1); }
TEST(best_effort_of_several_processes_yields, NULL, "clock=virtual participants=5") { yields(MS, 1, 3); }
TEST(best_effort_yields_with_short_kernels, NULL, "clock=virtual participants=3") { yields(MS / 20, 1, 1); }

/* What one owner leaves, until the other one, whose share that is, begins: what was lent is not saved up. What the
 * owners have of each other in the first second or two is another matter: nobody has measured them yet. */
TEST(best_effort_has_what_one_owner_leaves_until_another_begins, NULL, "clock=virtual participants=4") {
    double share[TENANTS];
    struct tenant t[] = {{.cores = 30, .kernel_ns = MS},
                         {.cores = 70, .kernel_ns = 5 * MS, .from_ms = 10025, .until_ms = 20025},
                         {.rest = 1, .kernel_ns = MS, .async = 1}};
    struct world w = begun(t, 3, 28);
    shares(&w, 4000, 10000, share);
    CHECK(share[0] > 29 && share[0] < 32.5 && share[2] > 67 && share[2] < 71);
    shares(&w, 10025 + OFF_MS, 12025, share);
    CHECK(share[2] < 2 && share[0] + share[1] > 90);
    shares(&w, 14000, 20000, share);
    CHECK(share[2] < 1.5 && share[0] > 28.5 && share[0] < 31.5 && share[1] > 67.5 && share[1] < 71);
    shares(&w, 20025 + IDLE_MS + LOOK_MS + OFF_MS, 21500, share);
    CHECK(share[2] > 66);
    shares(&w, 24000, 27000, share);
    CHECK(share[0] > 27 && share[0] < 32 && share[2] > 67 && share[2] < 72);
    tenants_end(t, 3);
}

/* The agent measures twice a second and takes a loan back at any moment: time of both rates lies in between. */
TEST(a_loan_that_ends_leaves_neither_debt_nor_credit, NULL, "clock=virtual participants=2") {
    struct tenant t = {.rest = 1, .lent = 700, .kernel_ns = MS};
    tenants_start(&t, 1, 6);
    for (unsigned ms = 0; ms < 4000; ms += MEASURE_MS) {
        tenant_limits(0, &t, tenant_busy(&t));
        sim_sleep((ms + MEASURE_MS < 4000 ? MEASURE_MS : MEASURE_MS - 50) * MS);
    }
    t.lent = 0;
    tenant_limits(0, &t, 0);
    sim_sleep(50 * MS);
    tenant_limits(0, &t, tenant_busy(&t));
    sim_sleep(50 * MS);
    struct tessera_card_usage usage = tenant_usage(0);
    fprintf(stderr, "    %.1f ms in the bucket, %.1f by replay\n", (double)usage.tokens_ns / 1e6, (double)usage.replay_ns / 1e6);
    CHECK(usage.tokens_ns > -(int64_t)(40 * MS) && usage.tokens_ns < (int64_t)MS);
    CHECK(usage.replay_ns > -(int64_t)(40 * MS) && usage.replay_ns < (int64_t)MS);
    t.lent = 700;
    tenant_limits(0, &t, 0);
    sim_sleep(100 * MS);
    uint64_t busy = tenant_busy(&t);
    sim_sleep(1000 * MS);
    CHECK(tenant_busy(&t) - busy > 670 * MS && tenant_busy(&t) - busy < 740 * MS);
    tenants_end(&t, 1);
}

/* What an owner has is what it would have without them. */
TEST(best_effort_starves_no_owner, NULL, "clock=virtual participants=4") {
    double share[TENANTS];
    struct tenant t[] = {{.cores = 60, .kernel_ns = 3 * MS},
                         {.rest = 1, .kernel_ns = 5 * MS, .async = 1},
                         {.rest = 1, .kernel_ns = MS / 20, .async = 1}};
    struct world w = begun(t, 3, 31);
    shares(&w, 10000, 30000, share);
    CHECK(share[0] > 59 && share[0] < 61 && share[1] + share[2] > 38);
    tenants_end(t, 3);
}

/* Two classes: one has twice the weight of the other. */
TEST(best_effort_is_divided_by_class, NULL, "clock=virtual participants=4") {
    double share[TENANTS];
    struct tenant t[] = {{.cores = 40, .kernel_ns = MS, .until_ms = 12025},
                         {.rest = 2, .kernel_ns = MS, .async = 1},
                         {.rest = 1, .kernel_ns = 5 * MS}};
    struct world w = begun(t, 3, 25);
    shares(&w, 4000, 12000, share);
    CHECK(share[0] > 37.5 && share[0] < 41.5 && share[1] > 38 && share[1] < 42 && share[2] > 18.5 && share[2] < 21.5);
    shares(&w, 14000, 24000, share);
    CHECK(share[1] > 65 && share[1] < 68 && share[2] > 32 && share[2] < 35);
    tenants_end(t, 3);
}

/* Nobody lends: one per cent, so that a launch comes to its end. Nor is a record without a mode no limit. */
static double alone(const char *limits) {
    set_limits(limits);
    begin();
    CUfunction f = kernel(MS);
    uint64_t start = sim_now(), end = start + 10000 * MS;
    while (sim_now() < end) {
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
        EQUAL(CU(cuStreamSynchronize)(NULL), 0);
    }
    return 100.0 * (double)sim_busy(getpid()) / (double)(sim_now() - start);
}
TEST(best_effort_that_nobody_lends_to_has_one_per_cent, NULL, "clock=virtual") {
    double share = alone("cores=0 mode=elastic card_flags=4");
    CHECK(share > 0.5 && share < 1.5);
}
TEST(best_effort_has_its_floor_and_no_loan_that_is_over, NULL, "clock=virtual") {
    double share = alone("cores=10 mode=elastic card_flags=4 lent=900 lent_ms=0");
    CHECK(share > 9.5 && share < 10.6);
}
TEST(best_effort_in_hard_mode_has_its_floor_alone, NULL, "clock=virtual") {
    double share = alone("cores=0 mode=hard card_flags=4 lent=900 lent_ms=60000");
    CHECK(share > 0.5 && share < 1.5);
}

static uint32_t rate(void) {
    size_t unused, total;
    usleep(150000);
    EQUAL(CU(cuMemGetInfo_v2)(&unused, &total), 0);
    return usage()->card[0].cores_permille;
}

TEST(best_effort_has_what_is_left, "cores=0 mode=elastic card_flags=4 lent=300 lent_ms=600000", NULL) {
    begin();
    EQUAL(rate(), 300);
    set_limits("cores=5 mode=elastic card_flags=4 lent=300 lent_ms=600000");
    EQUAL(rate(), 350);
    set_limits("cores=0 mode=elastic card_flags=4 lent=300 lent_ms=0"); /* nobody says any more */
    EQUAL(rate(), 10);
    set_limits("cores=0 mode=elastic lent=300 lent_ms=600000"); /* without the flag: no limit, as ever */
    EQUAL(rate(), 1000);
}
