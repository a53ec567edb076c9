"""A decision about loans stands while nobody who was quiet stirs, and not for long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tessera_agent.containers.hook_files import ContainerKey, HookFiles
from tessera_agent.lending.members import LendingMember
from tessera_agent.lending.steady_cards import SteadyCards
from tessera_core.hook.limits_file import CardLimit, HookLimits
from tessera_core.hook.usage_counters import UsageCounters
from tessera_runtime.clock import SystemClock

CARD = "GPU-0"
AGAIN_S = 0.5


@pytest.fixture
def members(tmp_path: Path) -> list[LendingMember]:
    """Two containers on one card."""
    files = HookFiles(tmp_path, SystemClock())
    return [
        LendingMember(
            key=ContainerKey(name, "c"),
            files=files.make(
                ContainerKey(name, "c"), HookLimits(container=name, cards=(CardLimit(uuid=CARD),))
            ),
            card=CARD, most_permille=1000, lends=True, priority=None, namespace="ns",
            reaches=False, works=True,
        )
        for name in ("busy", "quiet")
    ]  # fmt: skip


class Counts:
    """The counters of one of them, as the ticks have it."""

    def __init__(self, ticks: Ticks, name: str) -> None:
        self.ticks = ticks
        self.name = name

    def counters(self) -> UsageCounters:
        ticks, name = self.ticks, self.name
        ticks.touched.add(name)
        ticks.seen[name] = ticks.counts[name]
        return ticks.counts[name]

    def moved(self) -> bool:
        ticks, name = self.ticks, self.name
        ticks.touched.add(name)
        return ticks.seen[name][1:] != ticks.counts[name][1:]


class Ticks:
    """Ticks of a tenth of a second on one card; a decision is made whenever one is due."""

    def __init__(self, members: Sequence[LendingMember]) -> None:
        self.members = members
        self.steady = SteadyCards(AGAIN_S, lambda one: Counts(self, one.key.uid))
        self.counts = {"busy": UsageCounters(), "quiet": UsageCounters()}
        self.seen: dict[str, UsageCounters] = {}
        self.number = 0
        self.same = False
        """Whether each decision is the same as the one before."""
        self.touched: set[str] = set()
        """Whose counters the last tick read, all or a part."""

    def decides(self, *, busy: bool = True, quiet: bool = False, throttled: bool = False) -> bool:
        """Whether a decision is due after a tick in which they launched, or were throttled."""
        for name, works in (("busy", busy), ("quiet", quiet)):
            gpu_ns, throttled_ns, launches = self.counts[name]
            self.counts[name] = UsageCounters(
                gpu_ns + works, throttled_ns + (throttled and name == "busy"), launches + works
            )
        self.number += 1
        at_s = self.number / 10
        self.touched = set()
        found = self.steady.due(CARD, self.members, at_s)
        if found is None:
            return False
        assert found == list(self.counts.values())
        self.steady.decided(CARD, self.members, found, at_s, same=self.same)
        return True

    def rests(self, *, throttled: bool = False) -> None:
        """Until a decision after which all goes on as before."""
        for _ in range(20):
            self.decides(throttled=throttled)
        for _ in range(20):
            if self.decides(throttled=throttled):
                return
        raise AssertionError("no decision is due")


def test_a_busy_card_is_decided_upon_every_half_second(members: list[LendingMember]) -> None:
    ticks = Ticks(members)
    ticks.rests()
    assert [ticks.decides() for _ in range(10)] == [False, False, False, False, True] * 2


def test_who_was_quiet_is_noticed_at_the_next_tick(members: list[LendingMember]) -> None:
    ticks = Ticks(members)
    ticks.rests()
    assert ticks.decides(quiet=True)
    assert not ticks.decides(quiet=True)


def test_who_is_throttled_is_noticed_at_the_next_tick(members: list[LendingMember]) -> None:
    ticks = Ticks(members)
    ticks.rests()
    assert ticks.decides(throttled=True)
    assert not ticks.decides(throttled=True)


def test_who_launches_and_is_throttled_all_the_time_is_read_when_a_decision_is_due(
    members: list[LendingMember],
) -> None:
    ticks = Ticks(members)
    ticks.rests(throttled=True)
    due = [(ticks.decides(throttled=True), ticks.touched) for _ in range(10)]
    assert [decides for decides, _ in due] == [False, False, False, False, True] * 2
    assert all(read == ({"busy", "quiet"} if decides else {"quiet"}) for decides, read in due)
    assert ticks.decides(quiet=True, throttled=True)
    assert ticks.touched == {"busy", "quiet"}


def test_who_stops_and_begins_again_is_noticed_once_it_was_quiet_for_long(
    members: list[LendingMember],
) -> None:
    ticks = Ticks(members)
    ticks.rests(throttled=True)
    assert [ticks.decides(busy=False) for _ in range(6)] == [False] * 4 + [True, False]
    assert ticks.decides()


def test_where_nothing_changes_a_decision_stands_for_two_seconds(
    members: list[LendingMember],
) -> None:
    ticks = Ticks(members)
    ticks.same = True
    ticks.rests(throttled=True)
    due = [(ticks.decides(throttled=True), ticks.touched) for _ in range(20)]
    assert [decides for decides, _ in due] == [False] * 19 + [True]
    checked = [read == {"busy", "quiet"} for _, read in due]
    assert checked == ([False] * 4 + [True]) * 4


def test_a_decision_stands_twice_as_long_as_the_same_before(members: list[LendingMember]) -> None:
    ticks = Ticks(members)
    ticks.rests(throttled=True)
    ticks.same = True
    due = [number for number in range(1, 40) if ticks.decides(throttled=True)]
    assert due == [5, 15, 35]


@pytest.mark.parametrize("after", [0, 5, 10, 15])
def test_who_stops_is_noticed_after_half_a_second(members: list[LendingMember], after: int) -> None:
    ticks = Ticks(members)
    ticks.same = True
    ticks.rests(throttled=True)
    assert not any(ticks.decides(throttled=True) for _ in range(after))
    assert [ticks.decides(busy=False) for _ in range(5)] == [False] * 4 + [True]


def test_who_only_launches_is_decided_upon_every_half_second(
    members: list[LendingMember],
) -> None:
    ticks = Ticks(members)
    ticks.same = True
    ticks.rests()
    assert [ticks.decides() for _ in range(10)] == [False, False, False, False, True] * 2


def test_other_members_are_decided_upon_at_once(members: list[LendingMember]) -> None:
    ticks = Ticks(members)
    ticks.rests()
    ticks.members = list(members)
    assert ticks.decides()
    ticks.steady.keep_only({})
    assert ticks.decides()
