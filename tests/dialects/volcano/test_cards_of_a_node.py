"""Cards from the capacity, the list of unhealthy cards and the vgpu register (C and I)."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_schema.cards import Inventory, Precision
from tessera_schema.kube import Node
from tessera_testing.builders import a_node
from tests.dialects.volcano.setting import (
    MEMORY,
    NUMBER,
    P4,
    REGISTER,
    TWO_P4,
    VGPU_CORES,
    VGPU_MEMORY,
    VGPU_NUMBER,
    a_counted_node,
    a_vgpu_node,
    made,
)


def inventory(node: Node, **options: Any) -> Inventory:
    (only,) = made(**options).inventory(node, ())
    assert (only.vendor, only.source) == ("nvidia", "volcano")
    return only


@pytest.mark.parametrize(
    ("node", "healthy"),
    [
        pytest.param(a_counted_node(None, 8), dict.fromkeys(range(8), 0), id="C3-served-by-ours"),
        pytest.param(a_counted_node(0, 4), dict.fromkeys(range(4), 0), id="number-mode"),
        pytest.param(a_counted_node(400, 4, unhealthy="1, 3"), {0: 100, 2: 100, 3: 100}, id="C8"),
        pytest.param(a_counted_node("89424", "8"), dict.fromkeys(range(8), 11178), id="seed"),
        pytest.param(a_counted_node(401, 4), dict.fromkeys(range(4), 100), id="rounded-down"),
        pytest.param(a_counted_node(400, 4, unhealthy="1,3"), {0: 100, 2: 100}, id="two-sick"),
        pytest.param(
            a_counted_node(400, 4, unhealthy="x,,7,-1,2"),
            {0: 100, 1: 100, 3: 100},
            id="garbage-skipped",
        ),
        pytest.param(
            a_counted_node(400, 4, unhealthy=""), dict.fromkeys(range(4), 100), id="empty-list"
        ),
    ],
)
def test_the_total_is_divided_among_equal_cards(node: Node, healthy: dict[int, int]) -> None:
    found = inventory(node)
    assert found.precision is Precision.COUNTED
    assert {c.index: c.memory_mib for c in found.cards if c.healthy} == healthy


def test_unhealthy_cards_stay_in_the_table_and_keep_their_size() -> None:
    cards = inventory(a_counted_node(400, 4, unhealthy="1")).cards
    assert [(c.id, c.index, c.memory_mib, c.healthy) for c in cards] == [
        ("n1-nvidia-0", 0, 100, True),
        ("n1-nvidia-1", 1, 100, False),
        ("n1-nvidia-2", 2, 100, True),
        ("n1-nvidia-3", 3, 100, True),
    ]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        pytest.param(a_counted_node(100, 0), NUMBER, id="C5"),
        pytest.param(a_counted_node(100, None), NUMBER, id="no-number"),
        pytest.param(a_counted_node(-1, 4), MEMORY, id="negative-memory"),
        pytest.param(a_counted_node(100, "many"), NUMBER, id="no-quantity"),
        pytest.param(a_counted_node(100, 1_000_000_000), "at most 64", id="absurd-number"),
        pytest.param(a_counted_node("9E", 1), MEMORY, id="absurd-memory"),
    ],
)
def test_a_capacity_that_makes_no_sense_is_a_warning(node: Node, said: str) -> None:
    found = inventory(node)
    assert found.cards == ()
    (warning,) = found.warnings
    assert "node n1" in warning
    assert said in warning


def test_each_bad_id_of_an_unhealthy_card_is_named() -> None:
    found = inventory(a_counted_node(400, 4, unhealthy="1, 3"))
    (warning,) = found.warnings
    assert "volcano.sh/gpu-unhealthy-ids" in warning
    assert "' 3'" in warning


@pytest.mark.parametrize("node", [a_node(), a_counted_node(None, 0), a_counted_node(0, 0)])
def test_a_node_without_cards_says_nothing(node: Node) -> None:
    assert list(made().inventory(node, ())) == []


def test_the_capacity_counts_in_blocks_of_the_factor() -> None:
    # 2 cards of 11178 MiB in blocks of 10 MiB: 1117 blocks each
    cards = inventory(a_counted_node(2 * 1117, 2), gpu_memory_factor=10).cards
    assert [c.memory_mib for c in cards] == [11170, 11170]


def facts(node: Node, **options: Any) -> list[tuple[Any, ...]]:
    return [
        (c.id, c.index, c.slots, c.memory_mib, c.model, c.healthy, c.mode)
        for c in inventory(node, **options).cards
    ]


def test_the_register_describes_card_by_card() -> None:
    # I1
    text = f"GPU-a,10,11178,{P4},true,hami-core:GPU-b,10,11178,{P4},false,hami-core:"
    found = inventory(a_vgpu_node(text))
    assert found.precision is Precision.REGISTERED
    assert found.warnings == ()
    assert facts(a_vgpu_node(text)) == [
        ("GPU-a", 0, 10, 11178, P4, True, "hami-core"),
        ("GPU-b", 1, 10, 11178, P4, False, "hami-core"),
    ]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        pytest.param(f"GPU-a,10,11178,{P4},true:", ["GPU-a"], id="five-fields-of-2023"),
        pytest.param(f"GPU-a,10,1,{P4},true,mps:", ["GPU-a"], id="mps-counts-as-hami-core"),
        pytest.param(f"GPU-a,10,1,{P4},true,new:", ["GPU-a"], id="unknown-mode-too"),
        pytest.param(f"GPU-a,10,1,{P4},true,hami-core,more:", ["GPU-a"], id="a-seventh-field"),
    ],
)
def test_other_forms_of_the_register_are_read(text: str, ids: list[str]) -> None:
    found = inventory(a_vgpu_node(text))
    assert [c.id for c in found.cards] == ids
    assert [c.mode for c in found.cards] == ["hami-core"]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        pytest.param(
            a_vgpu_node(f"GPU-a,10,11178,{P4},true,hami-core"), "no ':' after each card", id="I3"
        ),
        pytest.param(a_vgpu_node(""), "no ':' after each card", id="empty"),
        pytest.param(a_vgpu_node(without=VGPU_CORES), VGPU_CORES, id="I5-cores"),
        pytest.param(a_vgpu_node(without=VGPU_MEMORY), VGPU_MEMORY, id="I5-memory"),
        pytest.param(a_vgpu_node(without=VGPU_NUMBER), VGPU_NUMBER, id="I5-number"),
        pytest.param(
            a_node(
                "n1",
                capacity={VGPU_NUMBER: "20", VGPU_MEMORY: "1", VGPU_CORES: "0"},
                annotations={REGISTER: TWO_P4},
            ),
            VGPU_CORES,
            id="I5-zero",
        ),
    ],
)
def test_a_register_that_cannot_be_trusted_gives_no_cards(node: Node, said: str) -> None:
    found = inventory(node)
    assert found.cards == ()
    (warning,) = found.warnings
    assert "node n1" in warning
    assert REGISTER in warning
    assert said in warning


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param("GPU-a,10,11178,X", id="few-fields"),
        pytest.param("GPU-a", id="no-fields"),
        pytest.param(",10,11178,X,true,hami-core", id="no-id"),
        pytest.param("GPU-a,ten,11178,X,true,hami-core", id="slots"),
        pytest.param("GPU-a,-1,11178,X,true,hami-core", id="negative-slots"),
        pytest.param("GPU-a,10,0,X,true,hami-core", id="no-memory"),
        pytest.param("GPU-a,10,99999999999,X,true,hami-core", id="absurd-memory"),
        pytest.param("GPU-a,10,11178,X,healthy,hami-core", id="health"),
    ],
)
def test_a_bad_entry_is_skipped_and_the_rest_is_used(entry: str) -> None:
    found = inventory(a_vgpu_node(f"{entry}:GPU-b,10,1,X,true,hami-core:"))
    assert [(c.id, c.index) for c in found.cards] == [("GPU-b", 1)]
    (warning,) = found.warnings
    assert entry[:20] in warning


def test_a_card_listed_twice_counts_once() -> None:
    found = inventory(a_vgpu_node(f"GPU-a,10,1,{P4},true,hami-core:" * 2))
    assert [(c.id, c.index) for c in found.cards] == [("GPU-a", 0)]
    assert "listed twice" in found.warnings[0]


def test_cards_in_mig_mode_are_reported_and_left_alone() -> None:
    found = inventory(a_vgpu_node(f"GPU-a,10,1,{P4},true,mig:GPU-b,10,1,{P4},true,hami-core:"))
    assert [(c.id, c.mode) for c in found.cards] == [("GPU-a", "mig"), ("GPU-b", "hami-core")]
    assert "MIG" in found.warnings[0]


def test_the_register_counts_memory_in_blocks_of_its_factor() -> None:
    node = a_vgpu_node(f"GPU-a,10,1117,{P4},true,hami-core:")
    assert facts(node, vgpu_memory_factor=10)[0][3] == 11170


def test_a_node_may_publish_both_ways() -> None:
    node = a_node(
        "n1",
        capacity={MEMORY: 200, NUMBER: 2, VGPU_NUMBER: 1, VGPU_MEMORY: 1, VGPU_CORES: 1},
        annotations={REGISTER: TWO_P4},
    )
    assert [i.precision for i in made().inventory(node, ())] == [
        Precision.COUNTED,
        Precision.REGISTERED,
    ]
