"""The capacity of a node, and annotations of pods that are bound to it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tessera_core.dialect_kit.contract import RecordedShares
from tessera_schema.cards import Card, Inventory, Precision
from tessera_schema.kube import Node, Pod, Quantity
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tests.dialects.gpumanager.setting import (
    BLOCK,
    CORE,
    INDEX,
    MEMORY,
    a_bound_pod,
    a_gpu_node,
    asking,
    made,
)


def inventory(node: Node, **options: object) -> Inventory | None:
    found = made(**options).inventory(node, ())
    assert len(found) <= 1
    return found[0] if found else None


def of(core: Quantity | None, memory: Quantity | None) -> Inventory | None:
    named = {CORE: core, MEMORY: memory}
    return inventory(a_node("n1", capacity={k: v for k, v in named.items() if v is not None}))


def test_cards_are_equal_parts_of_the_capacity() -> None:
    found = inventory(a_gpu_node("n1", 2, 9))  # C07: the ninth unit belongs to no card
    assert found is not None
    assert (found.vendor, found.source, found.precision) == (
        "nvidia", "gpumanager", Precision.COUNTED,
    )  # fmt: skip
    assert [(c.id, c.index, c.memory_bytes, c.cores_percent) for c in found.cards] == [
        ("n1-nvidia-0", 0, 4 * BLOCK, 100), ("n1-nvidia-1", 1, 4 * BLOCK, 100),
    ]  # fmt: skip
    assert found.warnings == ()


def test_two_cards_of_8191_mib_have_31_units_each() -> None:  # E08
    found = of("200", "63")
    assert found is not None
    assert [c.memory_bytes for c in found.cards] == [31 * BLOCK, 31 * BLOCK]


@pytest.mark.parametrize("core", [None, 0, "0"])
def test_a_node_without_core_units_has_no_cards(core: Quantity | None) -> None:  # C12
    assert of(core, 8) is None


@pytest.mark.parametrize(
    ("core", "memory", "cards", "each", "says"),
    [
        ("50", "8", 0, 0, "is no multiple of 100 (one card): taken as 0 cards"),
        ("250", "8", 2, 4, "is no multiple of 100 (one card): taken as 2 cards"),
        ("-100", "8", 0, 0, "must be 0 to"),
        ("many", "8", 0, 0, "not a quantity"),
        (100 * 65, "8", 0, 0, "must be 0 to 6400"),
        ("200", None, 2, 0, "missing: the cards' memory is not known"),
        ("200", "0", 2, 0, "0: the cards' memory is not known"),
        ("200", "x", 2, 0, "not a quantity"),
        ("200", "1Ei", 2, 0, "must be 0 to"),
    ],
)
def test_an_odd_capacity_is_reported_and_the_rest_is_used(
    core: Quantity, memory: Quantity | None, cards: int, each: int, says: str
) -> None:
    found = of(core, memory)
    assert found is not None
    assert [c.memory_bytes for c in found.cards] == [each * BLOCK] * cards
    assert says in found.warnings[0]
    assert found.warnings[0].startswith("node n1: status.capacity[tencent.com/vcuda-")


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        ({"gaia.tencent.com/gpu-model": "M40"}, "M40"),
        ({"tkestack.io/gpu-model": "P100"}, "P100"),
        ({"tkestack.io/gpu-model": "P100", "gaia.tencent.com/gpu-model": "M40"}, "M40"),
        ({"gaia.tencent.com/gpu-model": ""}, ""),
        ({}, ""),
    ],
)
def test_the_label_names_the_model(labels: dict[str, str], model: str) -> None:
    found = inventory(a_gpu_node("n1", 1, 4, labels=labels))
    assert found is not None
    assert found.cards[0].model == model


def test_one_of_two_prefixes_counts() -> None:
    capacity = {CORE: 200, MEMORY: 8, "inspur.com/vcuda-core": 200, "inspur.com/vcuda-memory": 8}
    found = inventory(a_node(capacity=capacity))
    assert found is not None
    assert (len(found.cards), found.warnings) == (2, ())


def test_prefixes_that_disagree_are_reported() -> None:
    capacity = {CORE: 200, MEMORY: 8, "inspur.com/vcuda-core": 300, "inspur.com/vcuda-memory": 8}
    found = inventory(a_node(capacity=capacity))
    assert found is not None
    assert len(found.cards) == 2
    assert "tencent.com/ counts" in found.warnings[0]
    other = inventory(a_node(capacity=capacity), prefixes=["inspur.com", "tencent.com"])
    assert other is not None
    assert len(other.cards) == 3


def test_an_empty_prefix_leaves_the_word_to_the_other() -> None:
    capacity = {CORE: 0, MEMORY: 0, "inspur.com/vcuda-core": 100, "inspur.com/vcuda-memory": 8}
    found = inventory(a_node(capacity=capacity))
    assert found is not None
    assert (len(found.cards), found.warnings) == (1, ())


# -- bound pods

CARDS = tuple(
    a_card(f"u{i}", i, mib=1024, vendor="nvidia", minor=minor) for i, minor in enumerate((-1, 3, 1))
)


def recorded(pod: Pod, cards: Sequence[Card] = CARDS) -> RecordedShares | None:
    return made().recorded(pod, cards)


def shares(pod: Pod) -> list[tuple[str, int, str, int, float, bool]]:
    found = recorded(pod)
    assert found is not None
    assert found.problem == ""
    return [
        (s.container, s.position, s.card, s.memory_bytes // BLOCK, s.cores_percent, s.exclusive)
        for s in found.shares
    ]


def test_a_part_holds_what_it_requested() -> None:
    pod = a_bound_pod(a_container(), asking(50, 1), idx={1: "0"})
    assert shares(pod) == [("c1", 1, "u0", 1, 50, False)]


def test_whole_cards_are_taken_whole() -> None:
    pod = a_bound_pod(asking(200, 1), asking(10, 2), idx={0: "0,2", 1: "1"}, assigned="false")
    assert shares(pod) == [
        ("c0", 0, "u0", 4, 100, True), ("c0", 0, "u2", 4, 100, True), ("c1", 1, "u1", 2, 10, False),
    ]  # fmt: skip


def test_150_core_units_are_taken_as_the_one_card_that_they_got() -> None:
    assert shares(a_bound_pod(asking(150, 1), idx={0: "0"})) == [("c0", 0, "u0", 4, 100, True)]


def test_the_agent_writes_minor_numbers() -> None:
    assert shares(a_bound_pod(asking(10, 1), idx={0: "3"}))[0][2] == "u1"
    assert shares(a_bound_pod(asking(10, 1), idx={0: "1"}))[0][2] == "u2"
    assert shares(a_bound_pod(asking(10, 1), idx={0: "1"}, assigned="false"))[0][2] == "u1"


def test_containers_are_found_behind_init_containers() -> None:
    pod = a_bound_pod(asking(10, 1), idx={0: "0"}, init=(a_container(), asking(10, 1)))
    assert shares(pod) == [("c0", 2, "u0", 1, 10, False)]


@pytest.mark.parametrize(
    ("core", "memory", "idx", "says"),
    [
        pytest.param(50, 1, "5", "the node has no card 5", id="C14"),
        pytest.param(50, 1, "x", "is not a list of card numbers", id="no number"),
        pytest.param(50, 1, "", "is not a list of card numbers", id="empty"),
        pytest.param(50, 1, "0,", "is not a list of card numbers", id="half a list"),
        pytest.param(50, 1, "-1", "the node has no card -1", id="negative"),
        pytest.param(50, 1, "0,1", "names 2 cards", id="a part on two cards"),
        pytest.param(200, 1, "0", "names 1 cards", id="too few cards"),
        pytest.param(200, 1, "0,0", "names 1 cards", id="one card twice"),
        pytest.param(50, 1, None, "is missing", id="no key"),
        pytest.param(100, 0, None, "is missing", id="no key, whole card"),
        pytest.param("x", 1, "0", "not a quantity", id="no amount"),
    ],
)
def test_what_cannot_be_decoded_is_a_problem(
    core: Quantity, memory: int, idx: str | None, says: str
) -> None:
    found = recorded(a_bound_pod(asking(core, memory), idx={} if idx is None else {0: idx}))
    assert found is not None
    assert found.shares == ()
    assert says in found.problem


def test_a_pod_that_was_let_through_without_a_card_holds_none() -> None:
    found = recorded(a_bound_pod(asking(50, 0), asking(50, 0)))
    assert found == RecordedShares()


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(asking(50, 1), node="n1"),
        a_bound_pod(a_container(), idx={0: "0"}),
        a_bound_pod(asking(0, 0), idx={0: "0"}),
        a_bound_pod(asking(50, 1, "inspur.com"), idx={0: "0"}),
    ],
    ids=["no keys", "asks nothing", "asks 0", "keys of the other prefix"],
)
def test_pods_that_nobody_placed_hold_nothing(pod: Pod) -> None:
    assert recorded(pod) is None


def test_a_pod_of_the_other_prefix_is_read() -> None:
    notes = {"inspur.com/predicate-gpu-idx-0": "1", "inspur.com/gpu-assigned": "false"}
    pod = a_pod(asking(10, 1, "inspur.com"), node="n1", annotations=notes)
    assert shares(pod) == [("c0", 0, "u1", 1, 10, False)]


def test_what_is_written_reads_back() -> None:
    found = recorded(a_bound_pod(asking(200, 8), idx={0: "2,0"}, assigned="false"))
    assert found is not None
    assert [s.index for s in found.shares] == [2, 0]
    assert f"{INDEX}0" == "tencent.com/predicate-gpu-idx-0"
