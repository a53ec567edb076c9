"""Pods in order on nodes of GPU Manager's: which node, which cards, and what is written."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tessera_core.planner import Planner
from tessera_core.recovery.cluster import Cluster
from tessera_core.registry.registry import load
from tessera_schema.grants import GRANT_KEY
from tessera_schema.reasons import Reason
from tessera_schema.verdicts import Verdict
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.gpumanager.setting import (
    ASSIGNED,
    INDEX,
    NODE,
    TIME,
    a_bound_pod,
    a_gpu_node,
    asking,
    bound,
    cards_of,
)


class Step(NamedTuple):
    pod: list[tuple[int, int]]
    node: str = ""
    cards: Mapping[int, list[int]] = MappingProxyType({})


SEQUENCES = [
    pytest.param(
        [("testnode0", 2, 8), ("testnode1", 2, 8), ("testnode2", 2, 8)],
        [
            Step([(10, 1), (10, 1)], "testnode0", {0: [0], 1: [0]}),
            Step([(100, 3), (80, 3)], "testnode1", {0: [0], 1: [1]}),
            Step([(200, 10), (0, 0)], "testnode2", {0: [0, 1]}),
            Step([(10, 2), (0, 0)], "testnode0", {0: [0]}),
        ],
        id="C01",
    ),
    pytest.param(
        [("a", 2, 8)],
        [
            Step([(60, 1)], "a", {0: [0]}), Step([(60, 1)], "a", {0: [1]}), Step([(60, 1)]),
            Step([(40, 1)], "a", {0: [0]}), Step([(40, 4)]),
        ],
        id="C02",
    ),
    pytest.param(
        [("a", 2, 8)],
        [Step([(10, 4)], "a", {0: [0]}), Step([(10, 1)], "a", {0: [1]}), Step([(100, 0)])],
        id="C03",
    ),
    pytest.param([("a", 2, 8)], [Step([(10, 5)])], id="C04"),
    pytest.param(
        [("a", 4, 16), ("b", 1, 4)],
        [Step([(100, 0)], "b", {0: [0]}), Step([(100, 0)], "a", {0: [0]})],
        id="C05",
    ),
    pytest.param(
        [("a", 4, 16), ("b", 2, 8)],
        [
            Step([(50, 1)], "b", {0: [0]}), Step([(50, 1)], "b", {0: [0]}),
            Step([(100, 0)], "b", {0: [1]}), Step([(200, 0)], "a", {0: [0, 1]}),
            Step([(200, 0)], "a", {0: [2, 3]}),
        ],
        id="C06",
    ),
    pytest.param([("a", 2, 9)], [Step([(99, 4)], "a", {0: [0]}), Step([(99, 5)])], id="C07"),
    pytest.param(
        [("a", 3, 12)],
        [Step([(30, 1)], "a", {0: [0]}), Step([(100, 0)], "a", {0: [1]}), Step([(200, 0)])],
        id="C08",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "steps"), SEQUENCES)
def test_pods_go_where_gpu_admission_puts_them(
    nodes: list[tuple[str, int, int]], steps: list[Step]
) -> None:
    pods = [
        a_pod(*(asking(core, memory) for core, memory in step.pod), name=f"p{i}")
        for i, step in enumerate(steps)
    ]
    outcomes = plan(pods, [a_gpu_node(*node) for node in nodes])
    assert [(o.node, cards_of(o)) for o in outcomes] == [(s.node, s.cards) for s in steps]
    assert all(
        (o.verdict is Verdict.PLACED) == bool(s.node) for o, s in zip(outcomes, steps, strict=True)
    )


def test_the_fullest_node_comes_first_by_cores_then_memory_then_name() -> None:
    nodes = [a_gpu_node("b", 1, 8), a_gpu_node("c", 1, 4), a_gpu_node("a", 1, 8)]
    pods = [a_pod(asking(50, 4), name=f"p{i}") for i in range(6)]
    assert [o.node for o in plan(pods, nodes)] == ["c", "a", "a", "b", "b", ""]


@pytest.mark.parametrize(
    ("containers", "says"),
    [
        pytest.param([(150, 0)], "such as 100 or 200", id="C09"),
        pytest.param([(50, 0), (50, 0)], "needs memory", id="C10"),
    ],
)
def test_what_upstream_lets_through_is_refused(
    containers: list[tuple[int, int]], says: str
) -> None:
    (outcome,) = plan([a_pod(*(asking(*c) for c in containers))], [a_gpu_node("a", 2, 8)])
    assert outcome.verdict is Verdict.REJECTED
    assert says in outcome.message


@pytest.mark.parametrize("key", [ASSIGNED, TIME, f"{INDEX}0", f"{INDEX}7"])  # C11
def test_an_unbound_pod_with_results_is_placed_again(key: str) -> None:
    pod = a_pod(asking(50, 1), annotations={key: "5", "other": "kept"})
    (outcome,) = plan([pod], [a_gpu_node("a", 2, 8)])
    assert (outcome.verdict, cards_of(outcome)) == (Verdict.PLACED, {0: [0]})
    assert outcome.annotations[f"{INDEX}0"] == "0"
    assert outcome.annotations[ASSIGNED] == "false"
    assert any(key in warning for warning in outcome.warnings)


@pytest.mark.parametrize(
    ("capacity", "word"),
    [
        ({}, Reason.NODE_HAS_NO_CARDS),
        ({"tencent.com/vcuda-core": "0"}, Reason.NODE_UNREGISTERED),
    ],
)  # C12
def test_a_node_without_core_units_takes_nothing(capacity: dict[str, str], word: Reason) -> None:
    (outcome,) = plan([a_pod(asking(50, 1))], [a_node("n1", capacity=capacity)])
    assert outcome.verdict is Verdict.WAITING
    assert [why.reason for why in outcome.reasons] == [word]


@pytest.mark.parametrize(
    ("phase", "card"),
    [("Running", 1), ("Pending", 1), ("Succeeded", 0), ("Failed", 0)],
)
def test_bound_pods_count_until_they_end(phase: str, card: int) -> None:  # C13
    there = a_bound_pod(asking(60, 1), idx={0: "0"}, phase=phase)
    (outcome,) = plan([a_pod(asking(50, 1))], [a_gpu_node("n1", 2, 8)], bound=[there])
    assert cards_of(outcome) == {0: [card]}


def test_a_pod_that_was_predicated_and_not_bound_is_planned_again() -> None:  # C13
    pod = a_pod(asking(50, 1), annotations={NODE: "n1", f"{INDEX}0": "0", TIME: "1"})
    first, second = plan([pod, a_pod(asking(50, 1), name="next")], [a_gpu_node("n1", 1, 4)])
    assert (first.verdict, second.verdict) == (Verdict.PLACED, Verdict.PLACED)


def test_a_number_that_the_node_does_not_have_is_reported_and_the_pod_counted() -> None:  # C14
    there = a_bound_pod(asking(60, 1), idx={0: "5"})
    cluster = Cluster(nodes=[a_gpu_node("n1", 2, 8)], bound=[there])
    planner = Planner(load(), cluster)
    assert any("the node has no card 5" in warning for warning in planner.warnings)
    assert sum(charge.cores_percent for charge in planner.ledger.charges_on("n1").values()) == 60


def test_a_pod_that_requests_nothing_is_ignored() -> None:  # C15
    nodes = [a_gpu_node("x", 1, 4), a_gpu_node("y", 1, 4)]
    pods = [a_pod(a_container()), a_pod(asking(0, 0)), a_pod(asking(0, 8))]
    assert {o.verdict for o in plan(pods, nodes)} == {Verdict.IGNORED}


def test_init_containers_find_room_next_to_nobody() -> None:
    pod = a_pod(asking(60, 1), init=(asking(100),))
    outcome, none = plan([pod, a_pod(asking(40, 1), name="next")], [a_gpu_node("a", 1, 4)])
    assert cards_of(outcome) == {0: [0], 1: [0]}
    assert outcome.annotations[f"{INDEX}0"] == "0"
    assert none.verdict is Verdict.WAITING  # the init container may run again, and needs it all


def test_both_prefixes_share_one_cluster() -> None:
    pods = [a_pod(asking(60, 1, p), name=p) for p in ("tencent.com", "inspur.com")]
    first, second = plan(pods, [a_gpu_node("a", 2, 8)])
    assert (cards_of(first), cards_of(second)) == ({0: [0]}, {0: [1]})
    assert second.annotations["inspur.com/predicate-gpu-idx-0"] == "1"


def test_what_was_written_is_read_back_without_our_grant() -> None:
    node = a_gpu_node("a", 3, 12)
    first = plan([a_pod(asking(30, 1), asking(200))], [node])[0]
    assert cards_of(first) == {0: [0], 1: [1, 2]}
    again = bound(first, without=[GRANT_KEY])
    planner = Planner(load(), Cluster(nodes=[node], bound=[again]))
    assert planner.warnings == []
    entry = planner.ledger.entry(first.pod.metadata.uid)
    assert entry is not None
    assert entry.grant == first.grant


def test_the_pod_of_the_readme_runs() -> None:
    notes = {"inspur.com/vcuda-core-limit": "50"}
    shared = a_pod(asking(50, 30, "inspur.com"), name="vcuda", annotations=notes)
    owner = a_pod(asking(200, 60, "inspur.com"), name="whole")
    first, second = plan([shared, owner], [a_gpu_node("n1", 3, 180, "inspur.com")])
    assert first.grant is not None
    assert [(s.memory_mib, s.cores_percent) for s in first.grant.shares] == [(7680, 50)]
    assert first.injections["c0"].annotations["inspur.com/vcuda-core-limit"] == "50"
    assert cards_of(second) == {0: [1, 2]}
    assert first.warnings == second.warnings == ()
