"""Victims come back and preempt in their turn; however the cluster begins, that comes to an end."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from tessera_core.preemption.preemption import NoPreemption, PreemptionPlanner
from tests.core.preemption.scenarios import (
    NOW,
    Party,
    Room,
    Scenario,
    a_scenario,
    preemptor_of,
    view_of,
)

SCENARIOS = 400
Placed = dict[str, Party]


def groups(scenario: Scenario, waiting: Placed, running: Placed) -> list[tuple[Party, ...]]:
    """Who is tried together, highest priority first: gangs that do not run, and single pods."""
    run = Counter(party.gang for party in running.values() if party.gang)
    found: dict[str, tuple[Party, ...]] = {}
    for party in waiting.values():
        together = party.gang and run[party.gang] < scenario.minima[party.gang]
        key = party.gang if together else party.name
        found[key] = (*found.get(key, ()), party)
    return sorted(found.values(), key=lambda group: (-scenario.priority(group[0]), group[0].name))


def placed_without(scenario: Scenario) -> Placed | None:
    """Those that need room, where there is some."""
    room, found = Room(scenario), Placed()
    for party in scenario.needy:
        places = next(room.seats(party), None)
        if places is None:
            return None
        room.take(party, places)
        found[party.name] = replace(party, places=places, age_s=600)
    return found


def preempted(scenario: Scenario) -> tuple[Placed, set[str]] | None:
    """Those that need room, where victims leave it, and the victims."""
    answer = PreemptionPlanner(view_of(scenario, protect_s=0), NOW).preempt(preemptor_of(scenario))
    if isinstance(answer, NoPreemption):
        return None
    found = Placed()
    for party in scenario.needy:
        grant = answer.seats[party.uid].grant
        assert grant is not None
        places = tuple((int(grant.node[1:]), share.index) for share in grant.shares)
        found[party.name] = replace(party, places=places, age_s=600)
    return found, {victim.pod.metadata.name for victim in answer.victims}


def settle(first: Scenario) -> int:
    """Let everybody try until nothing changes; how many evictions it took."""
    running = {party.name: party for party in first.running}
    waiting = {party.name: party for party in first.needy}
    seen: set[frozenset[tuple[str, object]]] = set()
    evictions, moved = 0, True
    while moved:
        moved = False
        for group in groups(first, waiting, running):
            scenario = replace(first, running=tuple(running.values()), needy=group)
            placed, victims = placed_without(scenario), set[str]()
            if placed is None:
                answer = preempted(scenario)
                if answer is None:
                    continue
                placed, victims = answer
                evictions += len(victims)
            for name in victims:
                gone = running.pop(name)
                assert first.priority(gone) < first.priority(group[0])
                waiting[name] = replace(gone, places=())
            for name, party in placed.items():
                running[name] = party
                del waiting[name]
            if victims:
                state = frozenset((name, party.places) for name, party in running.items())
                assert state not in seen, "the cluster was like this before"
                seen.add(state)
            moved = True
            break
    return evictions


def test_evictions_come_to_an_end() -> None:
    evictions = [settle(a_scenario(seed)) for seed in range(SCENARIOS)]
    assert sum(evictions) > SCENARIOS / 4
    assert max(evictions) <= 24
