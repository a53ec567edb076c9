"""An answer for a gang is the one that a search among units of all pods finds."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueDimension, QueueSpec
from tessera_core.preemption.preemption import (
    NoPreemption,
    Preemption,
    PreemptionPlanner,
)
from tessera_schema.cards import MIB
from tessera_schema.quotas import Limit
from tests.core.preemption.scenarios import (
    NOW,
    Party,
    Scenario,
    a_scenario,
    preemptor_of,
    view_of,
)

PARTS = 4
CARDS = QueueDimension("acme", "cards")
ENDED_EARLY = "as far as the search went"


def check(scenario: Scenario, limit: Limit | None = None) -> bool:
    """Hold an answer to that among all pods; True when it names victims."""
    view, preemptor = replace(view_of(scenario), lending=None), preemptor_of(scenario)
    view.ledger.set_limits([limit] if limit else [])
    found = PreemptionPlanner(view, NOW).preempt(preemptor)
    expected = PreemptionPlanner(view, NOW, among_all=True).preempt(preemptor)
    if isinstance(found, NoPreemption) or isinstance(expected, NoPreemption):
        assert isinstance(found, NoPreemption)
        assert isinstance(expected, NoPreemption)
        assert found == expected or expected.message.startswith(ENDED_EARLY)
        return False
    assert replace(found, exhausted=expected.exhausted) == expected
    assert found.exhausted <= expected.exhausted
    return True


@pytest.mark.parametrize("part", range(PARTS))
def test_on_small_clusters_it_is_the_same(part: int) -> None:
    named = 0
    for seed in range(part, 400, PARTS):
        scenario = a_scenario(seed)
        named += len(scenario.needy) > 1 and check(scenario)
    assert named > 2


def a_crowd(seed: int) -> Scenario:
    """Some nodes full of pods and gangs of few ages, so that many cost the same."""
    random = Random(seed)  # noqa: S311  (clusters, not keys)
    nodes, cards = random.randint(3, 12), random.choice([2, 4])
    minima = {f"g{n}": random.randint(1, 4) for n in range(4)}
    running = [
        Party(
            name=f"p{node}-{card}-{half}", cores=50, cpu=random.randint(0, 2),
            priority=random.choice([0, 0, 1, 2, 2, 2, 9]), places=((node, card),),
            age_s=random.choice([600, 600, 5_000, random.randint(40, 90_000)]),
            checkpoint_s=random.choice([None, None, 600]),
            gang=random.choice(["", "", "", *minima]), app=random.choice(["", "", "a", "b"]),
            controlled=random.random() < 0.98, grace_s=random.choice([30, 30, 30, 900]),
        )
        for node in range(nodes)
        for card in range(cards)
        for half in range(2)
        if random.random() < 0.97
    ]  # fmt: skip
    members, shape = random.randint(2, 5), random.choice([(1, 16), (1, 8), (2, 16), (cards, 16)])
    needy = tuple(
        Party(name=f"m{n}", cards=shape[0], mib=shape[1], cores=100, priority=5, gang="needy")
        for n in range(members)
    )
    if random.random() < 0.3:
        needy = (replace(needy[0], cards=1, mib=8, cores=20), *needy[1:])
    budgets = tuple((app, random.randint(0, 3)) for app in ("a", "b") if random.random() < 0.5)
    return Scenario(((64, cards),) * nodes, tuple(running), needy, minima | {"needy": members},
                    budgets)  # fmt: skip


@pytest.mark.parametrize("part", range(PARTS))
def test_on_full_clusters_it_is_the_same(part: int) -> None:
    named = 0
    for seed in range(part, 48, PARTS):
        named += check(a_crowd(seed))
    assert named > 2


@pytest.mark.parametrize("part", range(PARTS))
def test_in_queues_that_have_caps_it_is_the_same(part: int) -> None:
    """What has to go may be far from where the gang starts."""
    named = 0
    for seed in range(part, 48, PARTS):
        scenario, random = a_crowd(seed), Random(seed)  # noqa: S311  (clusters, not keys)
        mine = [replace(each, queue=random.choice(["mine", "mine", "yours"]), gang="")
                for each in scenario.running]  # fmt: skip
        cap = {CARDS: sum(party.queue == "mine" for party in mine) / 2 - random.randint(-6, 1)}
        queues = (QueueSpec(origin=VOLCANO_QUEUE, name="mine", cap=cap),
                  QueueSpec(origin=VOLCANO_QUEUE, name="yours"))  # fmt: skip
        needy = tuple(replace(party, queue="mine") for party in scenario.needy)
        named += check(replace(scenario, running=tuple(mine), needy=needy, queues=queues))
    assert named > 2


@pytest.mark.parametrize("part", range(PARTS))
def test_in_a_namespace_that_has_a_limit_it_is_the_same(part: int) -> None:
    named = 0
    for seed in range(part, 48, PARTS):
        scenario = a_crowd(seed)
        used = sum(party.mib for party in scenario.running)
        limit = Limit(namespace="default", source="q", memory_bytes=(used + seed % 5 * 8) * MIB)
        named += check(scenario, limit)
    assert named > 2


def test_nobody_goes_from_nodes_that_are_closed_to_the_gang() -> None:
    """They are cheaper, and no member may be placed there."""
    running = tuple(
        Party(name=f"p{node}-{card}", mib=16, priority=node, places=((node, card),))
        for node in range(2)
        for card in range(2)
    )
    needy = tuple(Party(name=f"m{n}", mib=16, priority=5, gang="g") for n in range(2))
    scenario = Scenario(((8, 2), (8, 2)), running, needy, {"g": 2})
    preemptor = replace(preemptor_of(scenario), closed=frozenset({"n0"}))
    for among_all in (False, True):
        planner = PreemptionPlanner(view_of(scenario), NOW, among_all=among_all)
        found = planner.preempt(preemptor)
        assert isinstance(found, Preemption)
        assert {victim.pod.metadata.name for victim in found.victims} == {"p1-0", "p1-1"}
