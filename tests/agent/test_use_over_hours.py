"""What two looks at a usage file say of memory and launches over time, also of an older hook's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.hook import usage_file
from tessera_core.hook.limits_file import CardLimit, HookLimits
from tessera_core.hook.usage_file import Unbuilt, UsageFile, UsageFileBounds, decode_usage
from tessera_core.node.kernel_times import added, grown, quantiles_us
from tessera_core.node.memory_peaks import DAY_HOURS, HourlyPeaks
from tessera_core.node.usage_rates import HoldingContainer, Tolerance, UsageSample, use_between
from tessera_schema.cards import MIB
from tessera_schema.messages.device_reports import CardUse
from tests.agent.usagefile import a_usage, memory

CARD = "GPU-0a"
SECOND = 1_000_000_000
HOUR = 500_000
"""Since 1970."""
HOLDING = HoldingContainer(
    namespace="ns", pod="pod", uid="u", container="c",
    limits=HookLimits(
        container="ns/pod/c", cards=(CardLimit(uuid=CARD, memory_bytes=4000 * MIB),)
    ),
)  # fmt: skip
TOLERANCE = Tolerance(memory_bytes=0, overhead_bytes=0)


class Looks:
    """Looks at one container, each with what the hook says then."""

    def __init__(self) -> None:
        self._before: UsageSample | None = None

    def restart(self) -> None:
        """Another agent begins."""
        self._before = None

    def at(
        self, hours: float, held_mib: int = 0, times: dict[int, int] | None = None, /, *,
        sequence: int = 1, **record: int,
    ) -> CardUse:  # fmt: skip
        """A look so many hours after the first hour."""
        now_ns = int((HOUR + hours) * 3600) * SECOND
        slots: tuple[dict[str, Any], ...] = ()
        if held_mib:
            slots = ({"card": 0, "pid": 1, "bytes": memory(device=held_mib * MIB)},)
        data = a_usage({"uuid": CARD.encode()} | record, slots=slots, head={"sequence": sequence})
        for item, count in (times or {}).items():
            at = usage_file.FILE.offsets["kernel_times"] + 4 * item
            data[at : at + 4] = count.to_bytes(4, "little")
        bounds = UsageFileBounds(memory_bytes={"0a": 16000 * MIB}, now_ns=now_ns)
        read = decode_usage(bytes(data), bounds)
        assert isinstance(read, UsageFile)
        return self.sampled(hours, read)

    def sampled(self, hours: float, usage: UsageFile | Unbuilt) -> CardUse:
        """The same of what was read."""
        sample = UsageSample(
            at_s=hours * 3600, wall_ns=int((HOUR + hours) * 3600) * SECOND, usage=usage
        )
        use, self._before = use_between(HOLDING, self._before, sample, TOLERANCE)
        return use.cards[0]


def of_hour(hours: int, peak_mib: int, most_mib: int | None = None) -> dict[str, int]:
    """What the hook writes of peaks: of an hour, and of its container's whole life."""
    most = peak_mib if most_mib is None else most_mib
    return {
        "peak_hour": HOUR + hours, "hour_peak_bytes": peak_mib * MIB, "peak_bytes": most * MIB,
    }  # fmt: skip


def test_what_is_allocated_and_freed_between_two_looks_is_in_the_peak() -> None:
    looks = Looks()
    looks.at(0.1, 100, **of_hour(0, 100))
    use = looks.at(0.2, 100, **of_hour(0, 900))
    assert (use.memory_bytes, use.memory_peak_bytes) == (100 * MIB, 900 * MIB)
    use = looks.at(0.3, 100, **of_hour(0, 900))
    assert use.memory_peak_bytes == 0  # no more than before in this hour
    assert looks.at(1.1, 100, **of_hour(1, 300, 900)).memory_peak_bytes == 300 * MIB


def test_an_older_hook_shows_peaks_that_are_higher_than_any_before() -> None:
    looks = Looks()
    looks.at(0.1, 100, peak_bytes=100 * MIB)
    assert looks.at(0.2, 100, peak_bytes=900 * MIB).memory_peak_bytes == 900 * MIB
    use = looks.at(0.3, 100, peak_bytes=900 * MIB)
    assert (use.memory_peak_bytes, use.memory_day_peak_bytes) == (0, 900 * MIB)
    assert (use.allocated_bytes_per_s, use.kernel_times, use.kernel_p99_us) == (0, (), 0)


def test_a_peak_is_remembered_for_a_day() -> None:
    looks = Looks()
    looks.at(0.1, 100, **of_hour(0, 900))
    of_a_day = [
        looks.at(hours + 0.5, 100, **of_hour(0, 900)).memory_day_peak_bytes // MIB
        for hours in range(30)
    ]
    assert of_a_day == [900] * 24 + [100] * 6


def test_a_file_that_is_built_again_forgets_nothing() -> None:
    looks = Looks()
    looks.at(0.1, 700, **of_hour(0, 700))
    use = looks.at(0.2, 100, **of_hour(0, 200), sequence=2)
    assert (use.memory_peak_bytes, use.memory_day_peak_bytes) == (200 * MIB, 700 * MIB)


def test_another_agent_starts_with_the_most_of_the_containers_life() -> None:
    looks = Looks()
    looks.at(0.1, 100, **of_hour(0, 900))
    looks.restart()
    use = looks.at(50.1, 100, **of_hour(50, 200, 900))
    assert (use.memory_peak_bytes, use.memory_day_peak_bytes) == (0, 900 * MIB)
    assert looks.at(74.1, 100, **of_hour(50, 200, 900)).memory_day_peak_bytes == 100 * MIB


def test_a_first_use_of_the_card_counts_from_nothing() -> None:
    looks = Looks()
    looks.sampled(0, Unbuilt())
    use = looks.at(
        1 / 3600, 100, {1: 4}, **of_hour(0, 300), allocated_bytes=500 * MIB, longest_ns=1
    )  # fmt: skip
    assert use.memory_peak_bytes == 300 * MIB
    assert use.allocated_bytes_per_s == 500 * MIB
    assert use.kernel_times == (0, 4)


@pytest.mark.parametrize("hour", [HOUR + 1, 1 << 63])
def test_an_hour_that_has_not_come_says_nothing(hour: int) -> None:
    looks = Looks()
    looks.at(0.1, 100)
    use = looks.at(0.2, 100, peak_hour=hour, hour_peak_bytes=9000 * MIB)
    assert (use.memory_peak_bytes, use.memory_day_peak_bytes) == (0, 100 * MIB)


def test_nobody_has_more_than_a_card() -> None:
    looks = Looks()
    looks.at(0, 1)
    use = looks.at(0.1, 1, **of_hour(0, 1 << 40), allocated_bytes=1 << 63)
    assert use.memory_peak_bytes == use.memory_day_peak_bytes == 16000 * MIB
    assert use.allocated_bytes_per_s <= 1 << 53


def test_memory_is_allocated_at_a_rate() -> None:
    looks = Looks()
    looks.at(0, allocated_bytes=1000 * MIB)
    assert looks.at(10 / 3600, allocated_bytes=6000 * MIB).allocated_bytes_per_s == 500 * MIB
    assert looks.at(20 / 3600, allocated_bytes=10 * MIB).allocated_bytes_per_s == 0


def test_launches_of_the_interval_have_quantiles() -> None:
    looks = Looks()
    looks.at(0, 0, {1: 500, 8: 7})
    use = looks.at(0.1, 0, {1: 1490, 8: 17}, longest_ns=700_000)
    assert use.kernel_times == (0, 990, 0, 0, 0, 0, 0, 0, 10)
    assert use.kernel_p50_us == pytest.approx(5.8, abs=0.1)
    assert use.kernel_p99_us == pytest.approx(8.2, abs=0.1)
    use = looks.at(0.2, 0, {1: 1490, 8: 1016}, longest_ns=700_000)
    assert 524 < use.kernel_p50_us < use.kernel_p99_us < 1049


def test_launches_that_are_longer_than_all_steps_count_as_the_longest() -> None:
    counts = (0,) * (usage_file.TIMES - 1) + (3,)
    assert quantiles_us(counts, 500_000) == (500_000, 500_000)
    assert quantiles_us(counts, 0) == (67_108.9, 67_108.9)
    assert quantiles_us((), 500_000) == (0, 0)


def test_counts_wrap() -> None:
    before, now = [(1 << 32) - 3] + [0] * 15, [4, *[0] * 15]
    assert grown(before, now) == (7,)


@given(st.lists(st.lists(st.integers(0, 1 << 20), max_size=16), max_size=4))
def test_parts_add_up_and_quantiles_are_in_order(parts: list[list[int]]) -> None:
    counts = added(parts)
    assert sum(counts) == sum(map(sum, parts))
    p50, p99 = quantiles_us(counts, 80_000)
    assert 0 <= p50 <= p99 <= 80_000
    assert bool(p99) == bool(counts)


@given(st.lists(st.tuples(st.integers(-3, 40), st.integers(0, 100)), max_size=40))
def test_hourly_peaks_are_those_of_the_hours(looks: list[tuple[int, int]]) -> None:
    peaks, hour = HourlyPeaks(), HOUR
    most: dict[int, int] = {}
    for passed, used in looks:
        hour += max(passed, 0)
        peaks = peaks.moved_to(hour).noted(hour + min(passed, 0), used)
        most[hour + min(passed, 0)] = max(most.get(hour + min(passed, 0), 0), used)
        assert len(peaks.most_bytes) <= DAY_HOURS
        for hours in (1, 2, 24):
            wanted = [used for of, used in most.items() if hour - hours < of <= hour]
            assert peaks.peak_bytes(hours) == max(wanted, default=0)


def test_a_clock_that_is_turned_back_loses_no_peak() -> None:
    peaks = HourlyPeaks().moved_to(HOUR).noted(HOUR, 9).moved_to(HOUR - 100).noted(HOUR - 100, 5)
    assert (peaks.hour, peaks.peak_bytes()) == (HOUR - 100, 9)
