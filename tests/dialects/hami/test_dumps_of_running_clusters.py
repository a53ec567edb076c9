"""Nodes and bound pods as they are met in clusters that HAMi has run for years."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tessera_schema.kube import Container, Node, Quantity
from tessera_schema.requests import Role
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.hami.setting import (
    ALLOCATED,
    GPU,
    REGISTER,
    SCORE,
    a_gpu_node,
    counted,
    made,
    needs,
    picks,
)

CARDS = [a_card("a", 0, vendor="nvidia"), a_card("b", 1, vendor="nvidia")]
PLAIN = a_container({"cpu": 1})
SLICE = needs({"gpu": 1, "mem": 1000})


def serving(node: Node, amounts: Mapping[str, Quantity]) -> Node:
    """The node with these amounts allocatable."""
    return replace(node, status=replace(node.status, allocatable=dict(amounts)))


@pytest.mark.parametrize(
    ("containers", "positions"),
    [
        pytest.param((PLAIN, needs({"gpu": 1, "pct": 150})), [1], id="bent by HAMi, refused by us"),
        pytest.param((needs({"gpu": 1, "mem": "1500m"}), PLAIN), [0], id="no whole number"),
        pytest.param((PLAIN, a_container({"example.com/gpu": 1})), [1], id="names of another time"),
        pytest.param((PLAIN, PLAIN), [1], id="asks for nothing any more"),
    ],
)
def test_a_listed_card_is_taken_whatever_the_container_requests(
    containers: tuple[Container, ...], positions: list[int]
) -> None:
    """A card that a running pod has must not be given away because its manifest is odd."""
    pod = a_pod(*containers, node="n1", annotations={ALLOCATED: "a,NVIDIA,1000,30:;"})
    held = made().recorded(pod, CARDS)
    assert held is not None
    assert not held.problem
    assert [(s.position, s.role, s.card) for s in held.shares] == [
        (i, Role.APP, "a") for i in positions
    ]


def test_more_lists_than_asking_containers_go_to_the_last_ones() -> None:
    pod = a_pod(
        PLAIN, SLICE, init=(PLAIN,), node="n1",
        annotations={ALLOCATED: "a,NVIDIA,1000,30:;b,NVIDIA,1000,30:;"},
    )  # fmt: skip
    held = made().recorded(pod, CARDS)
    assert held is not None
    assert [(s.container, s.card) for s in held.shares] == [("c0", "a"), ("c1", "b")]


@pytest.mark.parametrize("amount", [0, "0", "0k"])
def test_cards_of_a_plugin_that_went_away_take_no_pods(amount: Quantity) -> None:
    """The register stays behind on the node; kubelet would refuse every pod there."""
    node = serving(a_gpu_node("a"), {GPU: amount})
    (inventory,) = made().inventory(node, ())
    assert not inventory.cards[0].healthy
    assert inventory.warnings == (
        f"node n1: annotation {REGISTER}: {GPU} is 0 in status.allocatable, so its cards take no "
        "pods: see whether HAMi's device plugin runs",
    )
    (outcome,) = plan([a_pod(SLICE)], [node])
    assert counted(outcome) == {"n1": "1/1 CardNotHealth"}


@pytest.mark.parametrize("amounts", [{}, {GPU: 10}, {GPU: "10"}, {GPU: "?"}])
def test_cards_are_served_where_nothing_says_that_they_are_not(
    amounts: Mapping[str, Quantity],
) -> None:
    (outcome,) = plan([a_pod(SLICE)], [serving(a_gpu_node("a"), amounts)])
    assert picks(outcome) == ["a"]


def test_the_count_is_found_under_its_configured_name() -> None:
    node = serving(a_gpu_node("a"), {"example.com/gpu": 0, GPU: 10})
    (inventory,) = made(count="example.com/gpu").inventory(node, ())
    assert not inventory.cards[0].healthy


def test_our_own_agent_vouches_for_cards_that_hamis_plugin_left() -> None:
    own = '{"version":1,"cards":[{"id":"a","index":0,"vendor":"nvidia","memory_bytes":8589934592}]}'
    node = a_gpu_node("a", annotations={"cards.tessera.dev/nvidia": own})
    (outcome,) = plan([a_pod(SLICE)], [serving(node, {GPU: 0})])
    assert picks(outcome) == ["a"]


@pytest.mark.parametrize("text", ["[]", ":", "::"])
def test_a_register_without_cards_is_reported(text: str) -> None:
    (inventory,) = made().inventory(a_node("n1", annotations={REGISTER: text}), ())
    assert inventory.warnings == (
        f"node n1: annotation {REGISTER}: it lists no cards; see whether the driver sees any",
    )


def test_a_card_without_neighbours_has_no_scores() -> None:
    """Go writes a map that was never made as null."""
    scores = '[{"uuid":"a","score":{"b":100}},{"uuid":"b","score":null}]'
    (inventory,) = made().inventory(a_gpu_node("a", "b", annotations={SCORE: scores}), ())
    assert not inventory.warnings
    assert [card.links for card in inventory.cards] == [{"b": 100}, {}]


def test_warnings_name_the_field_that_the_manifest_has() -> None:
    (outcome,) = plan([a_pod(needs({}, {"gpu": 1, "mem": 1, "core": 250}))], [a_gpu_node("a")])
    assert outcome.warnings[0].startswith("spec.containers[0].resources.requests[")


def test_a_priority_alone_is_reported_to_request_no_card() -> None:
    (outcome,) = plan([a_pod(needs({"priority": 1}))], [a_gpu_node("a")])
    assert outcome.verdict == "ignored"
    assert outcome.warnings == (
        "spec.containers[0].resources.limits[nvidia.com/priority]: not used: no cards are asked; "
        "add nvidia.com/gpu: 1",
    )


def test_a_card_that_fell_off_the_node_leaves_the_pods_other_card_taken() -> None:
    """Counted by its requests the pod would be taken to hold other cards than it does."""
    pod = a_pod(
        needs({"gpu": 2, "mem": 8000}), node="n1", name="running",
        annotations={ALLOCATED: "a,NVIDIA,8000,0:gone,NVIDIA,8000,0:;"},
    )  # fmt: skip
    held = made().recorded(pod, CARDS)
    assert held is not None
    assert [(s.card, s.index) for s in held.shares] == [("a", 0), ("gone", -1)]
    (outcome,) = plan([a_pod(SLICE)], [a_gpu_node("a", "b", "c")], bound=[pod])
    assert picks(outcome) == ["c"]
    big = a_pod(needs({"gpu": 3, "mem": 1000}))
    (outcome,) = plan([big], [a_gpu_node("a", "b", "c")], bound=[pod])
    assert counted(outcome) == {
        "n1": "1/3 CardInsufficientMemory, 2/3 AllocatedCardsInsufficientRequest"
    }
