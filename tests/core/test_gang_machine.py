"""The table of a gang's phases: what may follow on what, and what never does."""

from __future__ import annotations

import pytest

from tessera_core.machines.gang import (
    LEGAL,
    BarrierMissed,
    GangPhase,
    MembersGone,
    MembersReserved,
    QuorumLost,
    advance,
)
from tessera_core.machines.state_machine import IllegalTransition


def after(phase: GangPhase) -> set[GangPhase]:
    """All phases that may come after it, in however many steps, without another start."""
    found, left = set[GangPhase](), [phase]
    while left:
        each = left.pop()
        new = {
            then for (before, _), then in LEGAL.items()
            if before is each and then not in (GangPhase.GATHERING, GangPhase.RESERVED)
        } - found  # fmt: skip
        found |= new
        left += new
    return found


def test_nothing_leads_back_from_a_commit_to_the_barrier() -> None:
    assert not after(GangPhase.COMMITTED) & {GangPhase.QUEUED, GangPhase.BINDING}


@pytest.mark.parametrize("phase", sorted(set(GangPhase) - {GangPhase.OVER}))
def test_every_phase_is_reached_and_ends(phase: GangPhase) -> None:
    assert GangPhase.OVER in after(phase) | {
        then for (before, _), then in LEGAL.items() if before is phase
    } or phase in (GangPhase.RESERVED, GangPhase.BINDING)
    assert phase is GangPhase.GATHERING or phase in LEGAL.values()


def test_an_attempt_that_is_given_up_frees_before_it_ends() -> None:
    for phase in (GangPhase.RESERVED, GangPhase.BINDING):
        assert advance(phase, BarrierMissed()) is GangPhase.QUEUED
        for event in (MembersGone(), QuorumLost()):
            with pytest.raises(IllegalTransition):
                advance(phase, event)


@pytest.mark.parametrize("phase", [GangPhase.GATHERING, GangPhase.STARTED, GangPhase.COMMITTED])
def test_cards_are_reserved_only_for_a_gang_that_waits_for_its_turn(phase: GangPhase) -> None:
    with pytest.raises(IllegalTransition):
        advance(phase, MembersReserved())
