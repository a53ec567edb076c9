"""2,000 random clusters: who is named as a victim, held to every set of victims that there is."""

from __future__ import annotations

import pytest

from tessera_core.preemption.preemption import NoPreemption, Preemption, PreemptionPlanner
from tests.core.preemption.scenarios import (
    NOW,
    Party,
    Room,
    Scenario,
    a_scenario,
    best_cost,
    broken_rule,
    cost_of,
    fits_without,
    preemptor_of,
    view_of,
)

SCENARIOS, PARTS = 2000, 8


def answer(scenario: Scenario) -> Preemption | NoPreemption:
    return PreemptionPlanner(view_of(scenario), NOW).preempt(preemptor_of(scenario))


def parties(scenario: Scenario, found: Preemption) -> list[Party]:
    names = {victim.pod.metadata.name for victim in found.victims}
    return [party for party in scenario.running if party.name in names]


def check_seats(scenario: Scenario, found: Preemption, gone: list[Party]) -> None:
    """The places that are named are free once the victims have gone."""
    room = Room(scenario, [party.name for party in gone])
    for party in scenario.needy:
        grant = found.seats[party.uid].grant
        assert grant is not None
        node = int(grant.node[1:])
        room.take(party, [(node, share.index) for share in grant.shares])
    assert all(free >= 0 for card in room.cards.values() for free in card)
    assert all(free >= 0 for free in room.cpus)


def check_each_helps(scenario: Scenario, found: Preemption, gone: list[Party]) -> None:
    """Without any one unit there is no room."""
    for unit in found.units:
        others = {victim.uid for other in found.units if other is not unit for victim in other.pods}
        assert not fits_without(scenario, [each.name for each in gone if each.uid in others])


def check(scenario: Scenario) -> bool:
    """Hold one answer to all rules; True when it names victims."""
    found, best = answer(scenario), best_cost(scenario)
    if isinstance(found, NoPreemption):
        assert best is None, found.message
        return False
    gone = parties(scenario, found)
    assert gone
    assert not found.exhausted
    assert broken_rule(scenario, gone) == ""
    check_seats(scenario, found, gone)
    check_each_helps(scenario, found, gone)
    assert best is not None
    cost = cost_of(scenario, gone)
    assert cost[:3] == best[:3]
    assert cost[3] <= best[3] * 1.1
    assert (found.cost.slow, found.cost.priority, found.cost.gangs) == cost[:3]
    assert found.cost.card_s == pytest.approx(cost[3])
    return True


@pytest.mark.parametrize("part", range(PARTS))
def test_victims_are_few_and_cheap_and_may_go(part: int) -> None:
    named = tried = 0
    for seed in range(part, SCENARIOS, PARTS):
        scenario = a_scenario(seed)
        if not fits_without(scenario, ()):
            tried += 1
            named += check(scenario)
    assert named > SCENARIOS / PARTS / 10, f"{named} of {tried}"
