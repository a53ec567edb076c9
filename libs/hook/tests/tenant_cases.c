/* What containers get of a card that they share. */
#include "tenants.h"

#define MS 1000000ull

static void run(struct tenant *tenants, int count, uint64_t seconds, double tolerance) {
    int good = 1;
    tenants_run(tenants, count, seconds, 0);
    for (int i = 0; i < count; i++) {
        double wanted = tenants[i].idle ? 0 : tenants[i].cores;
        fprintf(stderr, "    tenant %d: %.2f of %u %%, kernels of %llu us\n", i, tenants[i].share, tenants[i].cores,
                (unsigned long long)tenants[i].kernel_ns / 1000);
        good &= tenants[i].share > wanted - tolerance && tenants[i].share < wanted + tolerance;
    }
    CHECK(good);
}

TEST(two_containers_50_50_1ms, NULL, "clock=virtual participants=3") {
    struct tenant t[] = {{.cores = 45, .kernel_ns = MS}, {.cores = 45, .kernel_ns = MS}};
    run(t, 2, 20, 2);
}
TEST(two_containers_30_60_20ms, NULL, "clock=virtual participants=3") {
    struct tenant t[] = {{.cores = 30, .kernel_ns = 20 * MS}, {.cores = 60, .kernel_ns = 20 * MS}};
    run(t, 2, 30, 2);
}
TEST(four_containers_of_22, NULL, "clock=virtual participants=5") {
    struct tenant t[] = {{.cores = 22, .kernel_ns = MS}, {.cores = 22, .kernel_ns = 5 * MS}, {.cores = 22, .kernel_ns = MS}, {.cores = 22, .kernel_ns = 5 * MS}};
    run(t, 4, 30, 2);
}
TEST(an_idle_neighbour_costs_nothing, NULL, "clock=virtual participants=3") {
    struct tenant t[] = {{.cores = 50, .kernel_ns = MS}, {.cores = 50, .kernel_ns = MS, .idle = 1}};
    run(t, 2, 10, 1);
}
TEST(two_containers_that_fill_the_card, NULL, "clock=virtual participants=3") {
    struct tenant t[] = {{.cores = 50, .kernel_ns = MS}, {.cores = 50, .kernel_ns = MS}};
    run(t, 2, 20, 3);
}
TEST(two_containers_30_70, NULL, "clock=virtual participants=3") {
    struct tenant t[] = {{.cores = 30, .kernel_ns = 5 * MS}, {.cores = 70, .kernel_ns = 5 * MS}};
    run(t, 2, 20, 3);
}
/* A container whose memory is guaranteed, next to two that have more memory together than the card has: its
 * share of the card is no smaller, second by second. */
TEST(a_guaranteed_container_keeps_its_share_next_to_overcommitted_ones, NULL, "clock=virtual participants=4 memory=4g") {
    struct tenant t[] = {{.cores = 50, .kernel_ns = MS, .mib = 2000},
                         {.cores = 25, .kernel_ns = 5 * MS, .mib = 1500, .resident_mib = 500},
                         {.cores = 25, .kernel_ns = MS, .mib = 1500, .resident_mib = 500, .async = 1}};
    run(t, 3, 30, 1);
    fprintf(stderr, "    the guaranteed one had %.2f to %.2f %% in a second\n", t[0].low, t[0].high);
    CHECK(t[0].low > 47);
}
TEST(four_containers_of_25, NULL, "clock=virtual participants=5") {
    struct tenant t[] = {{.cores = 25, .kernel_ns = MS}, {.cores = 25, .kernel_ns = MS}, {.cores = 25, .kernel_ns = MS}, {.cores = 25, .kernel_ns = MS}};
    run(t, 4, 20, 3);
}

/* The agent looks twice in the time of one launch: what it measured and what we counted are of different
 * launches then, and must not be taken for shares of each other. */
TEST(launches_longer_than_the_agents_look_keep_to_the_limit, NULL, "clock=virtual participants=2") {
    struct tenant t[] = {{.cores = 30, .kernel_ns = 500 * MS}};
    run(t, 1, 120, 2);
}
TEST(long_launches_of_two_processes_keep_to_the_limit, NULL, "clock=virtual participants=3") {
    struct tenant t[] = {{.cores = 75, .kernel_ns = 500 * MS, .processes = 2}};
    run(t, 1, 120, 2);
}

/* Sixteen processes whose event times are sixteen times too long, and kernels that no process remembers the
 * beginning of: each container has its share all the time. */
TEST(sixteen_processes_of_long_kernels_do_not_starve, NULL, "clock=virtual participants=17") {
    struct tenant t[4];
    for (int i = 0; i < 4; i++)
        t[i] = (struct tenant){.cores = 25, .kernel_ns = 500 * MS, .processes = 4};
    run(t, 4, 240, 3);
}
TEST(eight_processes_of_kernels_of_seconds_do_not_starve, NULL, "clock=virtual participants=9") {
    struct tenant t[2];
    for (int i = 0; i < 2; i++)
        t[i] = (struct tenant){.cores = 40, .kernel_ns = 3000 * MS, .processes = 4};
    run(t, 2, 480, 4);
}

/* All begin at once, and a process's first launches run among those of the fifteen others: what the agent measured
 * first makes good what they were debited too much. */
TEST(sixteen_processes_that_begin_together_have_their_share_soon, NULL, "clock=virtual participants=17") {
    struct tenant t[4];
    int good = 1;
    for (int i = 0; i < 4; i++)
        t[i] = (struct tenant){.cores = 25, .kernel_ns = 20 * MS, .processes = 4};
    tenants_start(t, 4, 11);
    for (int look = 0; look < 20; look++) {
        sim_sleep(500 * MS);
        for (int i = 0; i < 4; i++)
            tenant_limits(i, &t[i], tenant_busy(&t[i]));
    }
    for (int i = 0; i < 4; i++) {
        double share = (double)tenant_busy(&t[i]) / (double)(10000 * MS) * 100;
        fprintf(stderr, "    tenant %d: %.2f of 25 %% in the first 10 seconds\n", i, share);
        good &= share > 16;
    }
    CHECK(good);
    tenants_end(t, 4);
}

/* Time slices of brothers, and of neighbours while the card is not full, must not be taken for a short launch's
 * own time. */
TEST(four_processes_of_short_kernels_keep_to_the_limit, NULL, "clock=virtual participants=5") {
    struct tenant t[] = {{.cores = 75, .kernel_ns = MS / 200, .processes = 4}};
    run(t, 1, 6, 1);
}
TEST(short_kernels_of_three_containers_on_a_card_that_is_not_full, NULL, "clock=virtual participants=4") {
    struct tenant t[] = {{.cores = 25, .kernel_ns = MS / 200}, {.cores = 25, .kernel_ns = MS / 200}, {.cores = 25, .kernel_ns = MS / 200}};
    run(t, 3, 6, 1);
}

/* What ran while there was no agent is given back to nobody. */
TEST(an_agent_that_was_away_leaves_no_credit, NULL, "clock=virtual participants=2") {
    struct tenant t[] = {{.cores = 50, .kernel_ns = MS, .away = 8}};
    run(t, 1, 40, 2);
}
