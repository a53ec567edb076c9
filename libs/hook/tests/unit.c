/* The pure parts, under the sanitizers: ledger, bucket, bins, guesses, images, environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bucket.h"
#include "foreign.h"
#include "guess.h"
#include "image.h"
#include "ledger.h"
#include "limits.h"
#include "usage_map.h"

#define CHECK(c)                                                    \
    do {                                                            \
        if (!(c)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); \
            exit(1);                                                \
        }                                                           \
    } while (0)

static struct ts_holding holding(uint64_t key, uint64_t bytes) {
    return (struct ts_holding){.key = key, .bytes = bytes, .thing = TS_POINTER, .owner = key % 7 + 1};
}

static uint64_t taken;
static void count_taken(const struct ts_holding *one) { taken += one->bytes; }

static void ledger_agrees_with_a_model(void) {
    enum { KEYS = 5000 };
    static uint64_t model[KEYS];
    unsigned seed = 7;
    size_t live = 0;
    for (int i = 0; i < 2000000; i++) {
        seed = seed * 1103515245u + 12345u;
        uint64_t key = (seed >> 8) % KEYS;
        struct ts_holding one, got;
        if (seed & 0x80) {
            live += model[key] == 0;
            model[key] = (seed >> 4) + 1u;
            one = holding(key * 4096 + 512, model[key]);
            CHECK(ts_ledger_put(&one));
        } else {
            int there = ts_ledger_take(TS_POINTER, key * 4096 + 512, &got);
            CHECK(there == (model[key] != 0) && (!there || got.bytes == model[key]));
            live -= (size_t)there;
            model[key] = 0;
        }
    }
    CHECK(ts_ledger_size() == live);
    uint64_t all = 0;
    for (int k = 0; k < KEYS; k++)
        all += model[k];
    for (uint64_t owner = 1; owner <= 7; owner++)
        ts_ledger_take_owned(owner, count_taken);
    CHECK(taken == all && ts_ledger_size() == 0);
    ts_ledger_reset();
}

static void handles_count_references_and_mappings(void) {
    struct ts_holding vmm = {.key = 9, .bytes = 5, .thing = TS_VMM, .references = 1}, now;
    CHECK(ts_ledger_put(&vmm));
    CHECK(ts_ledger_count(TS_VMM, 9, 0, 1, &now) == 1 && ts_ledger_count(TS_VMM, 9, -1, 0, &now) == 1);
    CHECK(ts_ledger_count(TS_VMM, 9, 1, 0, &now) == 1 && ts_ledger_count(TS_VMM, 9, 0, -1, &now) == 1);
    CHECK(ts_ledger_count(TS_VMM, 9, -1, 0, &now) == 2 && now.bytes == 5 && ts_ledger_count(TS_VMM, 9, 1, 0, &now) == 0);
    ts_ledger_reset();
}

static void the_bucket_fills_and_owes(void) {
    static struct tessera_card_usage card;
    ts_bucket_fill(&card, 500, 1000000000);
    CHECK(card.tokens_ns == TS_BURST_NS / 2);
    ts_bucket_debit(&card, 525000000);
    CHECK(card.tokens_ns == -500000000);
    ts_bucket_fill(&card, 500, 1500000000);
    CHECK(card.tokens_ns == -250000000);
    ts_bucket_fill(&card, 500, 1400000000); /* a clock that steps back fills nothing */
    CHECK(card.tokens_ns == -250000000);
    CHECK(ts_bucket_room(&card, 500) == 250000000 + TS_BURST_NS / 2);
    card.tokens_ns = INT64_MIN / 2; /* garbage in the file: no more than the worst debt */
    ts_bucket_fill(&card, 1000, 2000000000);
    CHECK(card.tokens_ns >= -TS_MOST_DEBT_NS);
    card.tokens_ns = INT64_MAX / 2;
    ts_bucket_fill(&card, 1000, 3000000000);
    CHECK(card.tokens_ns == TS_MOST_CREDIT_NS);
    ts_bucket_bound(&card, -5, 5);
    CHECK(card.tokens_ns == 5);
    ts_bucket_bound(&card, 7, 9);
    CHECK(card.tokens_ns == 7);
}

static void overlaps_count_once(void) {
    static uint32_t bin[TESSERA_BINS];
    uint64_t t = 5000000000;
    CHECK(ts_bins_take(bin, t, t + 20000000, 20000000) == 20000000);
    CHECK(ts_bins_take(bin, t, t + 20000000, 20000000) == 0);
    CHECK(ts_bins_take(bin, t + 10000000, t + 30000000, 20000000) == 10000000);
    uint64_t third = ts_bins_take(bin, t + 100000000, t + 130000000, 10000000);
    uint64_t rest = ts_bins_take(bin, t + 100000000, t + 130000000, 30000000);
    CHECK(third == 10000000 && rest > 19990000 && rest <= 20000010);
    CHECK(ts_bins_take(bin, t + 100ull * 1000000000, t + 100ull * 1000000000 + 5000, 5000) == 5000);
    CHECK(ts_bins_take(bin, t, t + 100ull * 1000000000, 777) == 777);
    static uint32_t fresh[TESSERA_BINS]; /* longer than is remembered: what overlaps at the end overlaps all along */
    uint64_t seconds = 3000000000;
    CHECK(ts_bins_take(fresh, t, t + seconds, seconds) == seconds);
    CHECK(ts_bins_take(fresh, t, t + seconds, seconds) < seconds / 100);
    CHECK(ts_bins_take(fresh, t + seconds, t + 2 * seconds, seconds) == seconds);
}

static void guesses_learn(void) {
    struct ts_guess *guess = ts_guess_of(ts_guess_kernel((void *)0x7f0012345680, 65536, 65536, 1));
    CHECK(guess == ts_guess_of(ts_guess_kernel((void *)0x7f0012345680, 65536, 65536, 1)));
    CHECK(guess != ts_guess_of(ts_guess_kernel((void *)0x7f0012345680, 1, 1, 1)));
    CHECK(ts_guess_ns(guess) == TS_UNKNOWN_NS && ts_guess_wants(guess));
    for (int i = 0; i < 100; i++)
        ts_guess_learn(guess, 50000, 0);
    CHECK(ts_guess_ns(guess) == 50000);
    int wanted = 0;
    guess->since = 0;
    for (int i = 0; i < 40; i++)
        if (ts_guess_wants(guess)) {
            wanted++;
            guess->since = 0;
        }
    CHECK(wanted == 1);
    ts_guess_learn(guess, 6000000, 1); /* one slice of others in it */
    CHECK(ts_guess_ns(guess) > 50000 && ts_guess_ns(guess) < 100000);
    for (int i = 0; i < 40; i++) /* it has really become slower */
        ts_guess_learn(guess, 6000000, 1);
    CHECK(ts_guess_ns(guess) > 5000000);
    for (int i = 0; i < 10000; i++) /* more functions than the table holds */
        CHECK(ts_guess_of(ts_guess_kernel((void *)(uintptr_t)(0x1000 + i * 64), 1, 1, 1)));
    guess->inflight = 0; /* whoever has the entry now: what was in flight is another's */
    ts_guess_landed(guess);
    CHECK(guess->inflight == 0);
    ts_guess_reset();
}

static const char *const *variables;
static const char *from_list(const char *name) {
    for (const char *const *v = variables; *v; v += 2)
        if (!strcmp(v[0], name))
            return v[1];
    return NULL;
}

static uint64_t memory_of(const char *text) {
    const char *const list[] = {"CUDA_DEVICE_MEMORY_LIMIT", text, NULL};
    struct tessera_limits limits;
    variables = list;
    ts_environment(&limits, from_list);
    CHECK(ts_limits_valid(&limits));
    return limits.card[3].memory_bytes;
}

static void the_environment_is_read_as_hami_core_reads_it(void) {
    CHECK(memory_of("3000m") == 3000ull << 20 && memory_of("3G") == 3ull << 30 && memory_of("0x10k") == 16384);
    CHECK(memory_of("010") == 8 && memory_of("1024Mi") == 1024 && memory_of("1.5g") == 1ull << 30);
    CHECK(memory_of("") == 0 && memory_of("0") == 0 && memory_of("x") == 0 && memory_of("99999999999999999999") == 0);
    CHECK(memory_of("18446744073709551615g") == 0);
    const char *const cores[] = {"CUDA_DEVICE_SM_LIMIT", "30", "CUDA_DEVICE_SM_LIMIT_1", "100", NULL};
    struct tessera_limits limits;
    variables = cores;
    CHECK(ts_environment(&limits, from_list) && limits.card[0].cores_permille == 300 && limits.card[1].cores_permille == 1000);
    const char *const off[] = {"CUDA_DEVICE_SM_LIMIT", "30", "GPU_CORE_UTILIZATION_POLICY", "DISABLE", NULL};
    variables = off;
    CHECK(!ts_environment(&limits, from_list));
}

static void files_of_garbage_are_not_valid(void) {
    struct tessera_limits limits;
    unsigned seed = 3;
    for (int i = 0; i < 20000; i++) {
        for (size_t b = 0; b < sizeof limits; b += 4) {
            seed = seed * 1664525u + 1013904223u;
            memcpy((char *)&limits + b, &seed, 4);
        }
        limits.head.magic = TESSERA_LIMITS_MAGIC;
        CHECK(!ts_limits_valid(&limits));
        limits.head.layout = TESSERA_LAYOUT;
        limits.head.size = TESSERA_LIMITS_SIZE;
        (void)ts_limits_valid(&limits);
    }
}

static void uuids_are_compared_without_their_prefix(void) {
    CHECK(ts_uuid_same("GPU-00a2f344-95e6-3788-d92a-7bcc1d6ebf10", "MIG-00A2F344-95e6-3788-d92a-7bcc1d6ebf10"));
    CHECK(!ts_uuid_same("GPU-00a2f344-95e6-3788-d92a-7bcc1d6ebf10", "GPU-00a2f344-95e6-3788-d92a-7bcc1d6ebf11"));
}

/* A terabyte of address space with a mapping at either end is not walked through. */
static void mappings_are_found_beyond_holes(void) {
    uint64_t tera = UINT64_C(1) << 40, found = 0;
    struct ts_holding first = {.key = tera, .bytes = 4096, .thing = TS_MAPPING}, last = first, one;
    last.key = 2 * tera - 4096;
    CHECK(ts_ledger_put(&first) && ts_ledger_put(&last));
    while (ts_ledger_take_within(TS_MAPPING, tera, 2 * tera, &one))
        found += one.key;
    CHECK(found == first.key + last.key && ts_ledger_size() == 0);
    ts_ledger_reset();
}

static void fabric_handles_have_names(void) {
    unsigned char own[64] = {1, 2, 3}, others[64] = {1, 2, 4};
    ts_usage_open(NULL);
    ts_foreign_exported(own, CU_MEM_HANDLE_TYPE_FABRIC);
    CHECK(!ts_foreign_from_elsewhere(own, CU_MEM_HANDLE_TYPE_FABRIC));
    CHECK(ts_foreign_from_elsewhere(others, CU_MEM_HANDLE_TYPE_FABRIC));
}

/* A fat binary of a cubin of 3 MiB that is packed, one of 100 bytes that is no ELF, and PTX. */
struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes, names[5], unpacked_bytes;
    unsigned char payload[104];
};
static struct {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    struct entry entry[3];
} fat = {0xBA55ED50u, 1, 16, sizeof fat.entry, {{2, 0x101, 64, 104, {0}, 3 << 20, {0}}, {2, 0x101, 64, 104, {0}, 0, {1}},
                                                {1, 0x101, 64, 104, {0}, 9 << 20, {0}}}};

static void images_say_what_their_code_takes(void) {
    struct {
        uint32_t magic, version;
        const void *data;
    } wrapper = {0x466243B1u, 1, &fat};
    CHECK(ts_image_bytes(&fat) == 3 << 20 && ts_image_bytes(&wrapper) == 3 << 20);
    fat.entry[0].unpacked_bytes = 0;
    memcpy(fat.entry[0].payload, "\177ELF\1", 6); /* of 32 bits */
    CHECK(ts_image_bytes(&fat) == 104);
    fat.entry[1].bytes = 1 << 20; /* cut off */
    CHECK(ts_image_bytes(&fat) == TS_IMAGE_UNKNOWN);
    fat.bytes = 20;
    CHECK(ts_image_bytes(&fat) == TS_IMAGE_UNKNOWN);
    CHECK(ts_image_bytes("x") == TS_IMAGE_UNKNOWN && ts_image_bytes(".version 8.0") == TS_IMAGE_UNKNOWN);
    CHECK(ts_image_file_bytes("/dev/zero") == TS_IMAGE_UNKNOWN && ts_image_file_bytes("/no/such") == TS_IMAGE_UNKNOWN);
}

static void what_grows_has_an_end(void) {
    struct ts_holding more = {.key = 5, .bytes = 30, .thing = TS_CODE}, now;
    CHECK(ts_ledger_grow(&more, 50, &now) == 30 && now.bytes == 30);
    CHECK(ts_ledger_grow(&more, 50, &now) == 20 && now.bytes == 50);
    CHECK(ts_ledger_grow(&more, 50, &now) == 0 && ts_ledger_size() == 1);
    CHECK(ts_ledger_take(TS_CODE, 5, &now) && now.bytes == 50);
    CHECK(ts_ledger_grow(&more, 0, &now) == 0 && ts_ledger_size() == 0);
    ts_ledger_reset();
}

int main(void) {
    images_say_what_their_code_takes();
    what_grows_has_an_end();
    mappings_are_found_beyond_holes();
    fabric_handles_have_names();
    ledger_agrees_with_a_model();
    handles_count_references_and_mappings();
    the_bucket_fills_and_owes();
    overlaps_count_once();
    guesses_learn();
    the_environment_is_read_as_hami_core_reads_it();
    files_of_garbage_are_not_valid();
    uuids_are_compared_without_their_prefix();
    puts("ok   unit tests of the pure parts");
    return 0;
}
