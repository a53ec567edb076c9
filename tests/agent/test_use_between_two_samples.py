"""Rates stay within what time allows, and what the driver sees is held against what is claimed."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tessera_core.hook.limits_file import CardLimit, HookLimits, Mode
from tessera_core.hook.usage_file import (
    Garbled,
    Spoilt,
    Unbuilt,
    UsageFile,
    UsageFileBounds,
    decode_usage,
)
from tessera_core.node.usage_rates import (
    DriverSample,
    HoldingContainer,
    RawCounter,
    Tolerance,
    UsageSample,
    counted_at,
    is_limited,
    measured,
    use_between,
)
from tessera_schema.cards import MIB
from tessera_schema.messages.device_reports import CardUse, ContainerUse
from tests.agent.usagefile import a_usage, memory

CARD = "GPU-0a"
SECOND = 1_000_000_000
LIMIT = CardLimit(uuid=CARD, memory_bytes=4000 * MIB, cores_permille=300)
TOLERANCE = Tolerance(
    memory_bytes=256 * MIB, overhead_bytes=1024 * MIB, card_bytes={"0a": 16000 * MIB}
)
NOTHING: Mapping[str, DriverSample] = {}


def holding(limit: CardLimit = LIMIT, *, hooked: bool = True) -> HoldingContainer:
    limits = HookLimits(container="ns/pod/c", cards=(limit,))
    return HoldingContainer(
        namespace="ns", pod="pod", uid="u", container="c", limits=limits, hooked=hooked
    )


def usage(slots: tuple[dict[str, Any], ...] = (), *, sequence: int = 1, **card: int) -> UsageFile:
    data = a_usage({"uuid": CARD.encode()} | card, slots=slots, head={"sequence": sequence})
    bounds = UsageFileBounds(memory_bytes={"0a": 16000 * MIB}, now_ns=10_000 * SECOND)
    read = decode_usage(bytes(data), bounds)
    assert isinstance(read, UsageFile)
    return read


def slot(mib: int, pid: int = 1, **more: int) -> dict[str, Any]:
    return {"card": 0, "pid": pid, "bytes": memory(device=mib * MIB), **more}


def sample(
    at_s: float, seen: UsageFile | Unbuilt | Garbled, driven: Mapping[str, DriverSample] = NOTHING
) -> UsageSample:
    return UsageSample(at_s=at_s, wall_ns=int((1000 + at_s) * SECOND), usage=seen, driven=driven)


def between(
    before: UsageSample | None, after: UsageSample, holder: HoldingContainer | None = None
) -> ContainerUse:
    return use_between(holder or holding(), before, after, TOLERANCE)[0]


def card(
    before: UsageSample | None, after: UsageSample, holder: HoldingContainer | None = None
) -> CardUse:
    return between(before, after, holder).cards[0]


def test_time_and_counts_are_those_of_the_interval() -> None:
    first = usage(
        gpu_ns=SECOND, throttled_ns=0, launches=100, denials=1, failed_for_others=4
    )  # fmt: skip
    then = usage(
        gpu_ns=SECOND * 3 // 2, throttled_ns=SECOND, launches=160, denials=3, failed_for_others=9
    )
    before, after = sample(10, first), sample(12, then)
    use = card(before, after)
    assert (use.cores_percent, use.throttled_percent, use.launches, use.denials) == (25, 50, 60, 2)
    assert use.failed_for_others == 5
    assert (use.memory_limit_bytes, use.cores_limit_percent) == (4000 * MIB, 30)


def test_memory_and_processes_are_of_now() -> None:
    slots = (slot(100, pid=1, last_active_ns=7 * SECOND), slot(50, pid=2))
    use = card(None, sample(1, usage(slots, last_launch_ns=5 * SECOND)))
    assert (use.memory_bytes, use.processes, use.last_active) == (150 * MIB, 2, 7)
    assert use.cores_percent == 0


def unlocked(*slots: dict[str, Any]) -> UsageFile:
    seen = usage(slots)
    return replace(seen, slots=tuple(replace(slot, locked=False) for slot in seen.slots))


def test_a_process_that_died_holds_nothing() -> None:
    use = card(None, sample(1, unlocked(slot(100, gaps=1))))
    assert (use.memory_bytes, use.processes) == (0, 0)
    assert between(None, sample(1, unlocked(slot(100, gaps=1)))).enforced


def test_a_process_that_closed_its_files_still_holds_what_it_holds() -> None:
    seen = sample(1, unlocked(slot(100)), {"0a": DriverSample(memory_bytes=100 * MIB, processes=1)})
    assert (card(None, seen).memory_bytes, card(None, seen).processes) == (100 * MIB, 1)
    assert measured_twice(unlocked(slot(100)), DriverSample(memory_bytes=1, processes=1)).enforced


def test_a_card_is_never_busier_than_always() -> None:
    use = card(sample(10, usage(gpu_ns=0)), sample(11, usage(gpu_ns=1 << 62)))
    assert use.cores_percent == 100


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        (usage(gpu_ns=9 * SECOND), usage(gpu_ns=SECOND), 0),
        (usage(gpu_ns=9 * SECOND), usage(gpu_ns=SECOND, sequence=2), 50),
        (Unbuilt(), usage(gpu_ns=SECOND), 50),
        (Garbled(Spoilt.SIZE), usage(gpu_ns=SECOND), 50),
        (usage(gpu_ns=SECOND), Unbuilt(), 0),
    ],
    ids=["went back", "built anew", "first use", "was not readable", "file is new"],
)
def test_counters_that_start_again_count_from_0(
    before: UsageFile | Unbuilt | Garbled, after: UsageFile | Unbuilt, percent: float
) -> None:
    assert card(sample(10, before), sample(12, after)).cores_percent == percent


@pytest.mark.parametrize("at_s", [10, 9])
def test_no_time_between_looks_is_no_rate(at_s: float) -> None:
    use = card(sample(10, usage(gpu_ns=0)), sample(at_s, usage(gpu_ns=SECOND)))
    assert use.cores_percent == 0


def test_a_loan_counts_until_it_ends() -> None:
    until = int(1012 * SECOND)
    lent = CardLimit(
        uuid=CARD, cores_permille=300, mode=Mode.ELASTIC, lent_permille=900, lent_until_ns=until
    )
    percents = [
        card(None, sample(at, usage()), holding(lent)).cores_limit_percent for at in (11, 12)
    ]
    assert percents == [100, 30]


def test_modes_without_a_limit_show_none() -> None:
    for limit in (CardLimit(uuid=CARD), CardLimit(uuid=CARD, cores_permille=300, mode=Mode.OFF)):
        assert card(None, sample(1, usage()), holding(limit)).cores_limit_percent == 0


def measured_twice(
    seen: UsageFile | Unbuilt, driven: DriverSample, holder: HoldingContainer | None = None
) -> ContainerUse:
    """What is said when two looks in a row show the same."""
    use, first = use_between(holder or holding(), None, sample(1, seen, {"0a": driven}), TOLERANCE)
    assert use.gaps == ()
    return use_between(holder or holding(), first, sample(2, seen, {"0a": driven}), TOLERANCE)[0]


def test_a_process_without_a_slot_has_no_hook() -> None:
    use = measured_twice(
        Unbuilt(), DriverSample(memory_bytes=500 * MIB, busy_ns=4 * SECOND // 10, processes=1)
    )
    assert (use.enforced, use.gaps) == (False, ("no-hook",))
    assert use.cards[0].measured_by == "driver"
    assert (use.cards[0].memory_bytes, use.cards[0].cores_percent) == (500 * MIB, 40)


def test_memory_above_what_is_charged_and_measured_is_a_gap() -> None:
    seen = usage((slot(1000, overhead_bytes=500 * MIB),))
    assert measured_twice(seen, DriverSample(memory_bytes=1756 * MIB, processes=1)).gaps == ()
    assert measured_twice(seen, DriverSample(memory_bytes=1757 * MIB, processes=1)).gaps == (
        "use-above-charge",
    )


def test_a_first_context_is_allowed_for_once_in_each_process() -> None:
    allowing = replace(TOLERANCE, context_bytes=700 * MIB)

    def gaps(contexts: int, mib: int) -> tuple[str, ...]:
        seen = usage((slot(1000, contexts=contexts), slot(0, contexts=contexts)))
        driven = {"0a": DriverSample(memory_bytes=mib * MIB, processes=1)}
        _, first = use_between(holding(), None, sample(1, seen, driven), allowing)
        return use_between(holding(), first, sample(2, seen, driven), allowing)[0].gaps

    assert gaps(contexts=1, mib=1956) == ()
    assert gaps(contexts=1, mib=1957) == ("use-above-charge",)
    assert gaps(contexts=0, mib=1257) == ("use-above-charge",)


def test_claims_of_the_file_explain_no_more_than_they_may() -> None:
    boast = usage((slot(15000, overhead_bytes=15000 * MIB, imported_bytes=15000 * MIB),))
    use = measured_twice(boast, DriverSample(memory_bytes=5300 * MIB, processes=1))
    assert use.gaps == ("use-above-charge",)


def test_who_holds_the_whole_card_has_nothing_to_exceed() -> None:
    whole = holding(CardLimit(uuid=CARD, memory_bytes=16000 * MIB, cores_permille=1000))
    assert measured_twice(Unbuilt(), DriverSample(memory_bytes=1, processes=1), whole).enforced


def test_one_odd_sample_is_none() -> None:
    odd = sample(1, Unbuilt(), {"0a": DriverSample(memory_bytes=1, processes=1)})
    _, kept = use_between(holding(), None, odd, TOLERANCE)
    fine = sample(2, usage((slot(1),)), {"0a": DriverSample(memory_bytes=1, processes=1)})
    use, kept = use_between(holding(), kept, fine, TOLERANCE)
    assert use.enforced
    assert use_between(holding(), kept, odd, TOLERANCE)[0].enforced


def test_gaps_that_the_hook_admits_are_passed_on() -> None:
    use = between(None, sample(1, usage((slot(1, gaps=0b10001), slot(1, gaps=0b1)))))
    assert (use.enforced, use.gaps) == (False, ("above-limit", "unhooked-symbol"))


def test_a_file_that_cannot_be_believed_is_a_gap() -> None:
    use = between(None, sample(1, Garbled(Spoilt.REPLACED)))
    assert (use.enforced, use.gaps) == (False, ("usage-file-bad",))


def test_where_the_vendor_limits_only_the_driver_counts() -> None:
    seen = sample(1, Unbuilt(), {"0a": DriverSample(memory_bytes=9, processes=2)})
    use = between(None, seen, holding(hooked=False))
    assert use.enforced
    assert (use.cards[0].memory_bytes, use.cards[0].cores_percent) == (9, 0)


def test_the_drivers_measurement_goes_next_to_the_hooks() -> None:
    limit = measured(
        CardLimit(uuid=CARD, measured_ns=SECOND), busy_ns=SECOND // 2, counted_ns=7,
        wall_ns=1005 * SECOND,
    )  # fmt: skip
    assert (limit.measured_ns, limit.measured_usage_ns) == (SECOND + SECOND // 2, 7)
    assert limit.measured_at_ns == 1005 * SECOND


@pytest.mark.parametrize(
    ("at_ns", "raw_ns"),
    [(0, 100), (10, 100), (15, 150), (19, 190), (20, 200), (30, 200)],
    ids=["long before", "then", "between", "between, later", "now", "a clock that is ahead"],
)
def test_what_the_hook_counted_grows_evenly_between_two_looks(at_ns: int, raw_ns: int) -> None:
    assert counted_at(at_ns, RawCounter(10, 100), RawCounter(20, 200)) == raw_ns


def test_what_began_again_is_what_it_is_now() -> None:
    assert counted_at(15, RawCounter(10, 900), RawCounter(20, 200)) == 200


@pytest.mark.parametrize(
    "limit",
    [
        CardLimit(uuid=CARD, cores_permille=300),
        CardLimit(uuid=CARD, cores_permille=300, mode=Mode.ELASTIC, lent_permille=700),
    ],
    ids=["a part", "a part, and the rest lent"],
)
def test_a_loan_lifts_no_limit(limit: CardLimit) -> None:
    assert is_limited(limit)


@pytest.mark.parametrize(
    "limit",
    [
        CardLimit(uuid=CARD),
        CardLimit(uuid=CARD, cores_permille=1000),
        CardLimit(uuid=CARD, cores_permille=300, mode=Mode.OFF),
    ],
    ids=["nothing said", "all of it", "only counted"],
)
def test_who_may_have_all_of_a_card_is_not_limited(limit: CardLimit) -> None:
    assert not is_limited(limit)
