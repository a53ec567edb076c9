"""A round in slices finds what a whole one finds, and no slice does more than a bounded piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.kube.scheduler_filters import KubeSchedulerFilters, Refusals
from tessera_core.rebalance.cluster_view import ClusterView, PlanRules, WorthRules
from tessera_core.rebalance.movable_pods import RunningPod
from tessera_core.rebalance.plan_budget import Spent
from tessera_core.rebalance.proposals import (
    EnabledPlanKinds,
    ProposalRound,
    ProposalRules,
    propose,
    proposing,
)
from tessera_core.rebalance.relieve_contention import CardOfNode, ContentionRules
from tessera_core.slices import Slices, at_once
from tessera_core.usage.smoothed import SmoothContainer
from tessera_schema.kube import Pod
from tessera_schema.messages.hints import CardHint
from tessera_schema.plans import PlanSpec
from tests.core.rebalance_plans import reference
from tests.core.rebalance_plans.clusters import HOUR_S, NOW, Cluster, relieve

T = TypeVar("T")
RULES = ContentionRules()
MOVES = ProposalRules(kinds=EnabledPlanKinds(resize=False, defragment=False))
HINTS = st.tuples(
    st.sampled_from([0, 4, 45, 60, 80]), st.sampled_from([10, 45, 100]), st.sampled_from([0.5, 1])
)
"""Contended, busy, confidence."""


@st.composite
def situations(draw: st.DrawFn) -> ClusterView:
    nodes = {f"n{n}": draw(st.integers(1, 2)) for n in range(draw(st.integers(2, 5)))}
    cluster, cards = Cluster(nodes), [(n, i) for n, count in nodes.items() for i in range(count)]
    free = dict.fromkeys(cards, 16000)
    for n in range(draw(st.integers(2, 10))):
        where, mib = draw(st.sampled_from(cards)), draw(st.sampled_from([2000, 4000, 8000]))
        if free[where] >= mib:
            free[where] -= mib
            cluster.runs(
                f"p{n}", *where, mib, age_s=HOUR_S * draw(st.sampled_from([0.1, 1, 2])),
                owner_kind=draw(st.sampled_from(["ReplicaSet", "ReplicaSet", "DaemonSet"])),
            )  # fmt: skip
    if draw(st.booleans()):
        cluster.limit(namespace="default", cards=draw(st.integers(2, 8)))
    hints = []
    for node, card in cards:
        contended, busy, trust = draw(HINTS)
        hints.append((node, CardHint(
            card=f"{node}-{card}", contended_percent=contended, busy_percent=busy, confidence=trust
        )))  # fmt: skip
    settling = {node: NOW + draw(st.sampled_from([-1, -1, 1])) for node in nodes}
    rules = PlanRules(worth=WorthRules(times=draw(st.sampled_from([0, 1.5]))))
    return cluster.situation(rules, hints, spent=Spent(settling=settling))


def as_move(spec: PlanSpec | str | None) -> reference.Move | None:
    if not isinstance(spec, PlanSpec):
        return None
    (step,) = spec.steps
    return step.pod.name, step.card, step.to_node, spec.cost, spec.gain


@given(situations())
def test_a_move_is_the_one_that_the_plainest_search_finds(view: ClusterView) -> None:
    assert as_move(relieve(view, RULES)) == reference.move_of(view, RULES)


@given(situations(), st.integers(1, 3))
def test_rounds_of_a_few_cards_find_what_one_of_all_finds(view: ClusterView, cards: int) -> None:
    rules, rounds = replace(MOVES, cards=cards), list[ProposalRound]()
    passed = frozenset[CardOfNode]()
    while not rounds or (passed and not rounds[-1].specs):
        rounds.append(at_once(proposing(view, rules, (), passed)))
        assert len(rounds[-1].passed - passed) <= cards
        passed = rounds[-1].passed
    assert rounds[-1].specs == propose(view, MOVES).specs


class CountedFilters(KubeSchedulerFilters):
    """They count the places that are sought."""

    def __init__(self, plain: KubeSchedulerFilters, counts: Counter[str]) -> None:
        self.__dict__.update(plain.__dict__)
        self._counts = counts

    def refusals(self, pod: Pod) -> Refusals:
        self._counts["places"] += 1
        return super().refusals(pod)


class Counted(dict[str, Any]):
    """It counts what is read of it."""

    def __init__(self, plain: Any, what: str, counts: Counter[str]) -> None:
        super().__init__(plain)
        self._what, self._counts = what, counts

    def get(self, key: str, default: Any = None) -> Any:
        self._counts[self._what] += 1
        return super().get(key, default)

    def items(self) -> Any:
        return self._each(super().items())

    def values(self) -> Any:
        return self._each(super().values())

    def _each(self, plain: Any) -> Iterator[Any]:
        for each in plain:
            self._counts[self._what] += 1
            yield each


class CountedMeasurements(list[SmoothContainer]):
    """They count the containers that are read."""

    def __init__(self, plain: list[SmoothContainer], counts: Counter[str]) -> None:
        super().__init__(plain)
        self._counts = counts

    def __iter__(self) -> Iterator[SmoothContainer]:
        for each in super().__iter__():
            self._counts["containers"] += 1
            yield each


def counted_calls(plain: Callable[[str], T], what: str, counts: Counter[str]) -> Callable[[str], T]:
    """The function, which counts its calls."""

    def call(name: str) -> T:
        counts[what] += 1
        return plain(name)

    return call


def counted(view: ClusterView, counts: Counter[str]) -> ClusterView:
    return replace(
        view, kubefit=CountedFilters(view.kubefit, counts),
        hints=Counted(view.hints, "hints", counts), running=Counted(view.running, "pods", counts),
        on=counted_calls(view.on, "nodes", counts),
        waiting=Counted(view.waiting, "waiting", counts),
        measured=CountedMeasurements(list(view.measured), counts),
    )  # fmt: skip


def most_of_a_slice(work: Slices[T], counts: Counter[str]) -> tuple[T, Counter[str]]:
    """What the work comes to, and the most of each thing that one slice has read."""
    most: Counter[str] = Counter()
    while True:
        before = counts.copy()
        try:
            next(work)
        except StopIteration as e:
            found: T = e.value
            return found, most | (counts - before)
        most |= counts - before


def crowded(nodes: int, **more: Any) -> ClusterView:
    """On each node a contended card with three pods, and nowhere to go for any."""
    cluster, hints, measured = Cluster({}), list[tuple[str, CardHint]](), list[SmoothContainer]()
    for n in range(nodes):
        cluster.node(f"n{n}", 2)
        pods = [cluster.runs(f"p{n}-{i}", f"n{n}", 0, 4000, cores=30) for i in range(3)]
        cluster.runs(f"q{n}", f"n{n}", 1, 16000, owner_kind="DaemonSet")
        measured += [use_of(one) for one in pods]
        for card, contended in enumerate((80, 20)):
            hints.append((f"n{n}", CardHint(
                card=f"n{n}-{card}", contended_percent=contended, busy_percent=100, confidence=1
            )))  # fmt: skip
    for n in range(nodes):
        cluster.waits(f"w{n}", 16000, asks={"cpu": "1"} if n % 2 else {})
    return cluster.situation(hints=hints, measured=measured, **more)


def use_of(one: RunningPod) -> SmoothContainer:
    (share,) = one.grant.shares
    return SmoothContainer(
        key=(one.uid, share.container, share.card),
        cores_percent=9, cores_peak_percent=9, cores_limit_percent=30, waiting_percent=45,
        memory_bytes=0, memory_peak_bytes=0, confidence=1,
    )  # fmt: skip


@pytest.mark.parametrize("nodes", [10, 60])
def test_a_slice_reads_one_thing_however_large_the_cluster_is(nodes: int) -> None:
    counts: Counter[str] = Counter()
    work = proposing(counted(crowded(nodes), counts), ProposalRules(cards=5))
    found, most = most_of_a_slice(work, counts)
    assert found.why_not["cards"].startswith("nobody who may move")
    assert len(found.passed) == 5
    assert most["hints"] <= 2
    assert most["places"] <= 2
    assert most["pods"] <= 2
    assert most["waiting"] <= 1
    assert most["containers"] <= 1


@pytest.mark.parametrize("nodes", [30, 60])
def test_hints_are_read_twice_in_a_round_and_a_bounded_number_of_places_is_sought(
    nodes: int,
) -> None:
    counts: Counter[str] = Counter()
    found = at_once(proposing(counted(crowded(nodes), counts), MOVES))
    assert len(found.passed) == MOVES.cards == 20
    assert counts["hints"] <= 2 * nodes
    assert counts["nodes"] <= MOVES.cards + 1
    assert counts["places"] <= 3 * MOVES.cards
