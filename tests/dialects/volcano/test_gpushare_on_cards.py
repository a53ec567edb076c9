"""gpu-memory and gpu-number on the cards of a node (cases D, E, N8)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tessera_core.planner import Planner
from tessera_core.recovery.cluster import Cluster
from tessera_core.registry.registry import load
from tessera_schema.cards import MIB
from tessera_schema.kube import Pod
from tessera_testing.builders import a_pod
from tessera_testing.plan import plan
from tests.dialects.volcano.setting import (
    INDEX,
    a_bound_pod,
    a_counted_node,
    indices_of,
    memory,
    number,
)

NODE = a_counted_node(2000, 2)

D1 = a_bound_pod(memory(600), index="0", name="d1")
D2 = a_bound_pod(memory(900), index="1", name="d2", phase="Succeeded")
D3 = a_bound_pod(memory(900), index="1", name="d3", phase="Failed")
D4 = a_bound_pod(memory(900), name="d4")
D5 = a_bound_pod(memory(100), index="0,1", name="d5")
D6 = a_bound_pod(memory(100), memory(200), index="1", name="d6")


def idle(bound: Sequence[Pod]) -> list[int]:
    """What is left of each card in MiB, below 0 where more is held than there is."""
    fleet = Planner(load(), Cluster(nodes=[NODE], bound=bound)).ledger.fleet
    view = fleet.view(fleet.rows["n1"], "nvidia")
    assert view is not None
    return [int(b) // MIB for b in view.state.memory_total - view.state.memory_used]


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        pytest.param([D1], [400, 1000], id="D1"),
        pytest.param([D1, D2], [400, 1000], id="D2"),
        pytest.param([D1, D2, D3], [400, 1000], id="D3"),
        pytest.param([D1, D2, D3, D5], [300, 900], id="D5"),
        pytest.param([D1, D2, D3, D5, D6], [300, 600], id="D6"),
    ],
)
def test_what_bound_pods_leave_idle(bound: list[Pod], expected: list[int]) -> None:
    assert idle(bound) == expected


def test_a_bound_pod_that_names_no_card_is_counted_by_its_request() -> None:
    # D4: upstream charges it nowhere, though it runs on some card
    assert idle([D1, D4]) == [400, 100]


@pytest.mark.parametrize(
    ("units", "fits"),
    [
        pytest.param(300, [0, 1], id="300"),
        pytest.param(301, [1], id="301"),
        pytest.param(600, [1], id="600"),
        pytest.param(601, [], id="601"),
    ],
)
def test_the_lowest_card_that_fits_is_taken(units: int, fits: list[int]) -> None:
    # D7, and D8 for 601
    (outcome,) = plan([a_pod(memory(units))], [NODE], bound=[D1, D5, D6])
    assert indices_of(outcome) == fits[:1]
    assert outcome.verdict == ("placed" if fits else "waiting")


def test_a_pod_that_fits_nowhere_learns_of_the_memory() -> None:
    # D8
    (outcome,) = plan([a_pod(memory(601))], [NODE], bound=[D1, D5, D6])
    assert {why.reason.wire for why in outcome.reasons} == {"CardInsufficientMemory"}
    assert outcome.reasons[0].node == "n1"


def test_all_containers_live_on_the_one_card_that_holds_their_sum() -> None:
    # D9: then nothing more fits on card 0
    pods = [a_pod(memory(250), memory(50), name="a"), a_pod(memory(1), name="b")]
    first, second = plan(pods, [NODE], bound=[D1, D5, D6])
    assert first.annotations[INDEX] == "0"
    assert second.annotations[INDEX] == "1"
    (third,) = plan([a_pod(memory(250), memory(51))], [NODE], bound=[D1, D5, D6])
    assert third.annotations[INDEX] == "1"


def test_an_overgranted_card_is_not_offered() -> None:
    # D10 and D11
    assert idle([a_bound_pod(memory(3000), index="0")]) == [-2000, 1000]
    node = a_counted_node(1000, 1)
    (outcome,) = plan([a_pod(memory(500))], [node], bound=[a_bound_pod(memory(3000), index="0")])
    assert outcome.verdict == "waiting"


def test_a_pod_that_is_gone_leaves_its_card() -> None:
    # D12: nothing has to be removed from it, as the annotations went with the Binding
    assert idle([]) == [1000, 1000]


def test_pods_fill_cards_in_order() -> None:
    # N8 without its gang
    pods = [a_pod(memory(6000), name=f"p{i}") for i in range(4)]
    outcomes = plan(pods, [a_counted_node(4 * 11178, 4)])
    assert [o.annotations[INDEX] for o in outcomes] == ["0", "1", "2", "3"]


def test_memory_never_spans_cards() -> None:
    assert plan([a_pod(memory(1001))], [NODE])[0].verdict == "waiting"


NUMBER_NODE = a_counted_node(0, 4, unhealthy="2")
DONE = a_bound_pod(number(1), index="1", phase="Succeeded")


@pytest.mark.parametrize(
    ("cards", "given"),
    [
        pytest.param(1, [0], id="one"),
        pytest.param(3, [0, 1, 3], id="all-that-are-left"),
        pytest.param(4, [], id="too-many"),
    ],
)
def test_whole_cards_are_healthy_ones_in_ascending_order(cards: int, given: list[int]) -> None:
    # E: a Succeeded pod blocks its card upstream as long as it is listed; here it holds nothing
    (outcome,) = plan([a_pod(number(cards))], [NUMBER_NODE], bound=[DONE])
    assert indices_of(outcome) == given


def test_whole_cards_must_be_idle_and_stay_alone() -> None:
    shared = a_bound_pod(memory(1), index="0")
    whole, part = plan(
        [a_pod(number(1), name="whole"), a_pod(memory(1000), name="part")], [NODE], bound=[shared]
    )
    assert indices_of(whole) == [1]
    assert part.verdict == "waiting"


def test_cards_of_unknown_memory_are_given_whole_only() -> None:
    node = a_counted_node(None, 2)
    part, whole = plan([a_pod(memory(1), name="part"), a_pod(number(2), name="whole")], [node])
    assert part.verdict == "waiting"
    assert indices_of(whole) == [0, 1]


def test_containers_with_whole_cards_have_their_own() -> None:
    (outcome,) = plan([a_pod(number(1), number(2))], [a_counted_node(0, 4)])
    assert outcome.grant is not None
    assert [(s.container, s.index) for s in outcome.grant.shares] == [
        ("c0", 0),
        ("c1", 1),
        ("c1", 2),
    ]
    assert outcome.annotations[INDEX] == "0,1,2"


@pytest.mark.parametrize(("order", "node"), [("binpack", "n1"), ("spread", "n2")])
def test_nodes_are_packed_or_spread_as_configured(order: str, node: str) -> None:
    nodes = [a_counted_node(1000, 1, name="n1"), a_counted_node(1000, 1, name="n2")]
    (outcome,) = plan(
        [a_pod(memory(100))],
        nodes,
        bound=[a_bound_pod(memory(100), index="0")],
        config={"volcano": {"node_order": order}},
    )
    assert outcome.node == node
