"""Queues take back what is their own. Volcano's, Kueue's and KAI's cases, and random clusters held
to every set of victims that there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, combinations, count
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueDimension, QueueSpec
from tessera_core.preemption.preemption import NoPreemption, Preemption, PreemptionPlanner
from tessera_schema.cards import MIB
from tests.core.preemption.scenarios import (
    CARD_MIB,
    NOW,
    Party,
    Room,
    Scenario,
    fits_without,
    preemptor_of,
    view_of,
)

CARDS = QueueDimension("acme", "cards")
MEMORY = QueueDimension("acme", "memory")
CPU = QueueDimension("", "cpu")
KOORDINATOR = ("quota.scheduling.koordinator.sh/preemptible", "false")


def a_queue(name: str, deserved: float | None = None, **spec: Any) -> QueueSpec:
    """A queue that deserves so many cards."""
    own = {} if deserved is None else {CARDS: deserved}
    return QueueSpec(origin=VOLCANO_QUEUE, name=name, deserved=own, **spec)


def by_memory(queue: QueueSpec) -> QueueSpec:
    """The same by the memory of so many cards."""
    return replace(queue, deserved={MEMORY: queue.deserved[CARDS] * CARD_MIB * MIB})


def cluster(
    queues: Sequence[QueueSpec],
    running: Mapping[str, Sequence[float]],
    needy: tuple[str, float],
    cards: Sequence[int] = (9,),
    **more: Any,
) -> Scenario:
    """Pods of so many cards, or of half of one, by their queues; each is named by its queue and its
    number, and starts where there is room."""
    empty = Scenario(tuple((64, each) for each in cards), (), (), {})
    room, parties = Room(empty), list[Party]()
    for queue, sizes in running.items():
        for n, size in enumerate(sizes, 1):
            party = _party(f"{queue}{n}", queue, size)
            party = replace(party, places=next(iter(room.seats(party))))
            room.take(party, party.places)
            parties.append(party)
    waits = replace(_party("new", *needy), **more)
    return replace(empty, running=tuple(parties), needy=(waits,), queues=tuple(queues))


def _party(name: str, queue: str, size: float) -> Party:
    mib, cores = (CARD_MIB, 100) if size >= 1 else (int(size * CARD_MIB), int(size * 100))
    return Party(name=name, cards=max(int(size), 1), mib=mib, cores=cores, queue=queue)


def answer(scenario: Scenario) -> Preemption | NoPreemption:
    return PreemptionPlanner(view_of(scenario), NOW).preempt(preemptor_of(scenario))


def victims(scenario: Scenario) -> list[str]:
    found = answer(scenario)
    if isinstance(found, NoPreemption):
        return []
    assert set(found.lenders) == {victim.uid for victim in found.victims}
    return sorted(victim.pod.metadata.name for victim in found.victims)


ABC = (a_queue("a", 3), a_queue("b", 3), a_queue("c", 3))
ONES = (1.0,) * 9


@pytest.mark.parametrize(
    ("running", "needy", "gives"),
    [
        ({"a": ONES[:3], "b": ONES[:5], "c": ONES[:1]}, ("c", 1), "b"),
        ({"a": ONES[:3], "b": ONES[:5]}, ("a", 2), ""),  # the imbalance would change sides
        ({"b": (9,)}, ("a", 2), "b"),  # one pod, which cannot be divided
        ({"a": ONES[:1], "b": ONES[:6], "c": ONES[:2]}, ("a", 2), "bb"),
    ],
)
def test_a_queue_within_what_it_deserves_takes_from_one_beyond(
    running: dict[str, Sequence[float]], needy: tuple[str, float], gives: str
) -> None:
    """GG2: nine cards, three queues that deserve three each"""
    assert [name[0] for name in victims(cluster(ABC, running, needy))] == list(gives)


def test_parts_of_cards_do_not_flap() -> None:
    """GG2, the last row: a 3.5, b 2.5, c 2.5 and b asks for 2"""
    halves = {"a": (1, 1, 1, 0.5), "b": (1, 1, 0.5), "c": (1, 1, 0.5)}
    assert victims(cluster([by_memory(each) for each in ABC], halves, ("b", 2), (10,))) == []


def test_parts_by_weight_are_taken_back() -> None:
    """GG1: of a gang's pods those stay whose owners forbid it"""
    queues = a_queue("q1", 2), a_queue("q2", 1)  # of three cards, by equal weights
    scenario = cluster(queues, {"q1": ONES[:3]}, ("q2", 1), (3,))
    stays = (("quota.scheduling.koordinator.sh/preemptible", "false"),)
    running = tuple(
        replace(party, labels=() if party.name == "q12" else stays) for party in scenario.running
    )
    assert victims(replace(scenario, running=running)) == ["q12"]


def test_only_cards_condemn() -> None:
    """GG3: the pod with the card goes, whatever its queue says of CPU, and whatever the taker's
    uses of it"""
    q17 = replace(a_queue("q17"), deserved={CPU: 2000})
    q18 = replace(a_queue("q18"), deserved={CPU: 2000, CARDS: 1})
    scenario = cluster((q17, q18), {"q17": (1,)}, ("q18", 1), (1,), cpu=3)
    assert victims(scenario) == ["q171"]


def test_of_two_queues_the_one_further_beyond_gives() -> None:
    queues = a_queue("a", 2), a_queue("b", 2), a_queue("c", 5)
    running = {"a": ONES[:5], "b": ONES[:4]}
    assert [name[0] for name in victims(cluster(queues, running, ("c", 1)))] == ["a"]
    assert sorted(name[0] for name in victims(cluster(queues, running, ("c", 3)))) == list("aab")


def test_priority_of_others_does_not_matter_and_that_of_its_own_queue_does() -> None:
    scenario = cluster(ABC, {"a": (1,), "b": ONES[:8]}, ("a", 1))
    running = tuple(replace(party, priority=1000) for party in scenario.running)
    assert [name[0] for name in victims(replace(scenario, running=running))] == ["b"]


def test_borrowed_cards_go_before_pods_of_lower_priority() -> None:
    scenario = cluster(ABC, {"a": (1,), "b": ONES[:8]}, ("a", 1), priority=10)
    found = answer(scenario)
    assert isinstance(found, Preemption)
    assert list(found.lenders.values()) == ["b"]


@pytest.mark.parametrize(
    ("lender", "why"),
    [
        (a_queue("b", 3, reclaimable=False), "of a queue that gives nothing back"),
        (a_queue("b", 9), "of a queue that uses no more than it deserves"),
        (a_queue("b", 3, guarantee={CARDS: 9}), "9 of a queue that would have too little left"),
    ],
)
def test_why_nothing_is_given_back(lender: QueueSpec, why: str) -> None:
    found = answer(cluster((a_queue("a", 3), lender), {"b": ONES}, ("a", 1)))
    assert isinstance(found, NoPreemption)
    assert why in found.message


def test_one_that_koordinator_never_takes_back_does_not_borrow() -> None:
    queues = a_queue("a", 1), a_queue("b", 1)
    scenario = cluster(queues, {"a": (1,), "b": ONES[:8]}, ("a", 1))
    assert [name[0] for name in victims(scenario)] == ["b"]
    scenario = cluster(queues, {"a": (1,), "b": ONES[:8]}, ("a", 1), labels=(KOORDINATOR,))
    assert victims(scenario) == []


def test_a_cap_above_both_is_met_once_the_lender_has_given() -> None:
    queues = (
        a_queue("top", 9, cap={CARDS: 9}), a_queue("a", 3, parent="top"),
        a_queue("b", 3, parent="top"),
    )  # fmt: skip
    full, roomy = (cluster(queues, {"b": ONES}, ("a", 2), (cards,)) for cards in (9, 12))
    assert [name[0] for name in victims(full)] == ["b", "b"]
    assert [name[0] for name in victims(roomy)] == ["b", "b"]  # for the cap alone


def test_a_department_within_its_part_gives_nothing_to_another() -> None:
    """Its leaf borrows from its own sister, and that one alone may take it back"""
    queues = (
        a_queue("x", 5), a_queue("y", 4), a_queue("x1", 3, parent="x"),
        a_queue("x2", 2, parent="x"), a_queue("y1", 4, parent="y"),
    )  # fmt: skip
    running = {"x1": ONES[:5], "y1": ONES[:4]}
    assert victims(cluster(queues, running, ("y1", 1))) == []
    assert [name[:2] for name in victims(cluster(queues, running, ("x2", 1)))] == ["x1"]


def test_a_department_that_says_nothing_deserves_what_its_queues_deserve() -> None:
    queues = (
        a_queue("x"), a_queue("y"), a_queue("x1", 3, parent="x"), a_queue("y1", 6, parent="y"),
    )  # fmt: skip
    assert [name[0] for name in victims(cluster(queues, {"x1": ONES}, ("y1", 1)))] == ["x"]


def test_a_queue_in_a_circle_takes_nothing_and_is_no_endless_work() -> None:
    queues = a_queue("a", parent="b"), a_queue("b", parent="a"), a_queue("c", 1)
    assert victims(cluster(queues, {"c": ONES}, ("a", 1))) == []
    assert [name[0] for name in victims(cluster(queues, {"a": ONES}, ("c", 1)))] == ["a"]


# -- at random


def a_random_cluster(seed: int) -> Scenario:
    random = Random(seed)  # noqa: S311  (clusters, not keys)
    queues = [
        a_queue(
            name, random.randint(0, 4), guarantee={CARDS: random.randint(0, 1)},
            reclaimable=random.random() < 0.9,
        )
        for name in "abc"
    ]  # fmt: skip
    nodes = tuple(random.randint(1, 4) for _ in range(random.randint(1, 2)))
    scenario = cluster(queues, {}, (random.choice("abc"), random.choice([1, 1, 2])), nodes)
    room, running = Room(scenario), list[Party]()
    for n in count():
        party = replace(
            _party(f"p{n}", random.choice("abc"), random.choice([1, 1, 2])),
            priority=random.choice([0, 5]), age_s=random.choice([600, 3600]),
        )  # fmt: skip
        places = list(room.seats(party))
        if not places or n == 6:
            break
        party = replace(party, places=random.choice(places))
        room.take(party, party.places)
        running.append(party)
    needy = replace(scenario.needy[0], priority=random.choice([0, 5]))
    return replace(scenario, running=tuple(running), needy=(needy,))


def broken_rule(scenario: Scenario, gone: Sequence[Party]) -> str:
    """Which rule it breaks to evict these for the pod that waits, in cards; empty for none."""
    specs = {queue.name: queue for queue in scenario.queues}
    total = sum(cards for _, cards in scenario.nodes)
    used = {
        name: sum(p.cards for p in scenario.running if p.queue == name) for name in specs
    }  # fmt: skip
    new = scenario.needy[0]

    def beyond(name: str, cards: int) -> float:
        return max(cards - specs[name].deserved[CARDS], 0) / total

    own = used[new.queue] + new.cards
    for name in {party.queue for party in gone}:
        sizes = [party.cards for party in gone if party.queue == name]
        if name == new.queue:
            if any(p.priority >= new.priority for p in gone if p.queue == name):
                return "not of lower priority"
            continue
        if not specs[name].reclaimable or not beyond(name, used[name] - sum(sizes) + max(sizes)):
            return f"{name} gives more than it borrows"
        if used[name] - sum(sizes) < specs[name].guarantee.get(CARDS, 0):
            return f"{name} is left less than its guarantee"
        if beyond(new.queue, own) > beyond(name, used[name] - sum(sizes)) and beyond(
            new.queue, own
        ):
            return "the taker is ahead"
    return ""


@pytest.mark.parametrize("part", range(4))
def test_500_random_clusters(part: int) -> None:
    """Somebody is named exactly where a set may go that makes room; the set keeps every rule, I10
    among them, and each of it is needed"""
    named = 0
    for seed in range(part, 500, 4):
        scenario = a_random_cluster(seed)
        if fits_without(scenario, ()):
            continue
        sets = chain.from_iterable(
            combinations(scenario.running, n) for n in range(1, len(scenario.running) + 1)
        )
        possible = [
            gone for gone in sets
            if not broken_rule(scenario, gone) and fits_without(scenario, [p.name for p in gone])
        ]  # fmt: skip
        found = answer(scenario)
        if isinstance(found, NoPreemption):
            assert not possible, (seed, found.message)
            continue
        gone = [p for p in scenario.running if p.uid in {v.uid for v in found.victims}]
        assert broken_rule(scenario, gone) == "", seed
        assert all(not fits_without(scenario, [p.name for p in gone if p is not x]) for x in gone)
        if any(all(p.queue != scenario.needy[0].queue for p in each) for each in possible):
            assert all(p.queue != scenario.needy[0].queue for p in gone), seed
        named += 1
    assert named > 20
