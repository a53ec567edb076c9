#include "layout.h"

#include <stdio.h>

#include "tessera/limits.h"
#include "tessera/usage.h"

#define FIELD(type, field) {#type "." #field, offsetof(struct type, field), sizeof(((struct type *)0)->field)},
#define WHOLE(type) {#type, 0, sizeof(struct type)},

static const struct {
    const char *name;
    size_t offset, size;
} rows[] = {
    WHOLE(tessera_head) FIELD(tessera_head, layout) FIELD(tessera_head, size) FIELD(tessera_head, cards)
    FIELD(tessera_head, sequence) FIELD(tessera_head, written_ns) FIELD(tessera_head, reserved)
    FIELD(tessera_head, magic)
    WHOLE(tessera_card_limit) FIELD(tessera_card_limit, uuid) FIELD(tessera_card_limit, memory_bytes)
    FIELD(tessera_card_limit, resident_bytes) FIELD(tessera_card_limit, cores_permille)
    FIELD(tessera_card_limit, lent_permille) FIELD(tessera_card_limit, lent_until_ns) FIELD(tessera_card_limit, mode)
    FIELD(tessera_card_limit, flags) FIELD(tessera_card_limit, index) FIELD(tessera_card_limit, priority)
    FIELD(tessera_card_limit, measured_ns) FIELD(tessera_card_limit, measured_at_ns)
    FIELD(tessera_card_limit, measured_usage_ns) FIELD(tessera_card_limit, reserved)
    WHOLE(tessera_limits) FIELD(tessera_limits, head) FIELD(tessera_limits, flags) FIELD(tessera_limits, log_level)
    FIELD(tessera_limits, generation) FIELD(tessera_limits, container) FIELD(tessera_limits, hold_until_ns)
    FIELD(tessera_limits, reserved) FIELD(tessera_limits, card) FIELD(tessera_limits, reserved_end)
    WHOLE(tessera_card_usage) FIELD(tessera_card_usage, uuid) FIELD(tessera_card_usage, lock)
    FIELD(tessera_card_usage, used) FIELD(tessera_card_usage, charged_bytes) FIELD(tessera_card_usage, peak_bytes)
    FIELD(tessera_card_usage, limit_bytes) FIELD(tessera_card_usage, denials)
    FIELD(tessera_card_usage, physical_bytes) FIELD(tessera_card_usage, wanted_bytes)
    FIELD(tessera_card_usage, wanted_at_ns)
    FIELD(tessera_card_usage, tokens_ns) FIELD(tessera_card_usage, refilled_ns)
    FIELD(tessera_card_usage, failed_for_others) FIELD(tessera_card_usage, waited_for_others)
    FIELD(tessera_card_usage, reserved_bucket) FIELD(tessera_card_usage, raw_ns) FIELD(tessera_card_usage, gpu_ns)
    FIELD(tessera_card_usage, throttled_ns) FIELD(tessera_card_usage, launches)
    FIELD(tessera_card_usage, last_launch_ns) FIELD(tessera_card_usage, generation)
    FIELD(tessera_card_usage, cores_permille) FIELD(tessera_card_usage, gain_permille)
    FIELD(tessera_card_usage, longest_ns) FIELD(tessera_card_usage, gain_at_ns)
    FIELD(tessera_card_usage, gain_measured_ns) FIELD(tessera_card_usage, gain_usage_ns)
    FIELD(tessera_card_usage, balance_at_ns) FIELD(tessera_card_usage, balance_measured_ns)
    FIELD(tessera_card_usage, balance_gpu_ns)
    FIELD(tessera_card_usage, reserved) FIELD(tessera_card_usage, allocated_bytes)
    FIELD(tessera_card_usage, hour_peak_bytes) FIELD(tessera_card_usage, peak_hour)
    FIELD(tessera_card_usage, reserved_memory) FIELD(tessera_card_usage, bin)
    WHOLE(tessera_slot) FIELD(tessera_slot, state) FIELD(tessera_slot, pid) FIELD(tessera_slot, started)
    FIELD(tessera_slot, card) FIELD(tessera_slot, version) FIELD(tessera_slot, gaps) FIELD(tessera_slot, contexts)
    FIELD(tessera_slot, bytes) FIELD(tessera_slot, gpu_ns) FIELD(tessera_slot, launches)
    FIELD(tessera_slot, throttled_ns) FIELD(tessera_slot, denials) FIELD(tessera_slot, last_launch_ns)
    FIELD(tessera_slot, last_active_ns) FIELD(tessera_slot, outstanding_ns) FIELD(tessera_slot, overhead_bytes)
    FIELD(tessera_slot, imported_bytes) FIELD(tessera_slot, command) FIELD(tessera_slot, reserved)
    WHOLE(tessera_usage) FIELD(tessera_usage, head) FIELD(tessera_usage, version) FIELD(tessera_usage, slots)
    FIELD(tessera_usage, exported) FIELD(tessera_usage, reaped_ns) FIELD(tessera_usage, slots_high)
    FIELD(tessera_usage, reserved_slots) FIELD(tessera_usage, limits_looked_ns) FIELD(tessera_usage, limits_stamp)
    FIELD(tessera_usage, reserved) FIELD(tessera_usage, card) FIELD(tessera_usage, slot)
    FIELD(tessera_usage, kernel_times)
};

void ts_layout_print(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("%s %zu %zu\n", rows[i].name, rows[i].offset, rows[i].size);
    printf("constant.limits_magic %llu 8\n", (unsigned long long)TESSERA_LIMITS_MAGIC);
    printf("constant.usage_magic %llu 8\n", (unsigned long long)TESSERA_USAGE_MAGIC);
    printf("constant.cards %u 4\nconstant.slots %u 4\nconstant.bins %u 4\nconstant.kinds %u 4\nconstant.times %u 4\n",
           TESSERA_CARDS, TESSERA_SLOTS, TESSERA_BINS, (unsigned)TESSERA_KINDS, TESSERA_TIMES);
}
