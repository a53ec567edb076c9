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
from tessera_core.node.core_lending import Lender, LendingDecision, LendingTimings
from tessera_runtime.clock import SystemClock

CARD = "GPU-0"
AGAIN_S = 0.3
DECISION = Lender(LendingTimings()).decide([], 0)


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


class Ticks:
    """Ticks of a tenth of a second on one card; a decision is made whenever one is due."""

    def __init__(self, members: Sequence[LendingMember]) -> None:
        self.members = members
        self.steady = SteadyCards(AGAIN_S)
        self.counts = [UsageCounters(), UsageCounters()]
        self.number = 0
        self.read: list[str] = []
        """Whose counters the last tick read."""

    def decides(self, *, busy: bool = True, quiet: bool = False, throttled: bool = False) -> bool:
        """Whether a decision is due after a tick in which they launched, or were throttled."""
        for place, works in enumerate((busy, quiet)):
            gpu_ns, throttled_ns, launches = self.counts[place]
            self.counts[place] = UsageCounters(
                gpu_ns + works, throttled_ns + (throttled and place == 0), launches + works
            )
        self.number += 1
        at_s = self.number / 10
        self.read = []
        found = self.steady.standing(CARD, self.members, self.counters, at_s)
        if isinstance(found, LendingDecision):
            return False
        assert found == self.counts
        self.steady.decided(CARD, self.members, DECISION, at_s)
        return True

    def counters(self, member: LendingMember) -> UsageCounters:
        self.read.append(member.key.uid)
        return self.counts[member.key.uid == "quiet"]

    def rests(self) -> None:
        """Until a tick after which a decision stands."""
        for _ in range(9):
            self.decides()
        while self.decides():
            pass


def test_a_busy_card_is_decided_upon_every_third_tick(members: list[LendingMember]) -> None:
    ticks = Ticks(members)
    ticks.decides()
    ticks.decides()  # it is seen to launch for the first time
    assert [ticks.decides() for _ in range(9)] == [False, False, True] * 3


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
    for _ in range(9):
        ticks.decides(throttled=True)
    due = [(ticks.decides(throttled=True), sorted(ticks.read)) for _ in range(12)]
    assert {decides for decides, _ in due} == {True, False}
    assert all(read == (["busy", "quiet"] if decides else ["quiet"]) for decides, read in due)
    assert ticks.decides(quiet=True, throttled=True)
    assert sorted(ticks.read) == ["busy", "quiet"]


def test_other_members_are_decided_upon_at_once(members: list[LendingMember]) -> None:
    ticks = Ticks(members)
    ticks.rests()
    ticks.members = list(members)
    assert ticks.decides()
    ticks.steady.keep_only({})
    assert ticks.decides()
