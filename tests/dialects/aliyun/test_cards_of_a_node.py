"""The capacity of a node, in GiB or MiB as its device plugin counts."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_schema.cards import MIB, Inventory, Precision
from tessera_schema.kube import Node, Quantity
from tessera_testing.builders import a_node
from tests.dialects.aliyun.setting import a_gpu_node, made


def inventory(node: Node, **options: object) -> Inventory | None:
    found = made(**options).inventory(node, ())
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    ("memory", "count", "options", "each_mib"),
    [
        ("60", "4", {}, [15360] * 4),
        ("15", "1", {}, [15360]),
        ("31", "2", {}, [15360] * 2),
        (60, 4, {}, [15360] * 4),
        ("60436", "4", {"memory_unit": "MiB"}, [15109] * 4),
    ],
)
def test_cards_are_equal_parts_of_the_capacity(
    memory: Quantity, count: Quantity, options: dict[str, Any], each_mib: list[int]
) -> None:
    node = a_gpu_node(memory, count, {"aliyun.accelerator/nvidia_name": "Tesla-T4"})
    found = inventory(node, **options)
    assert found is not None
    assert (found.source, found.precision, found.warnings) == ("aliyun", Precision.COUNTED, ())
    assert [c.memory_bytes for c in found.cards] == [mib * MIB for mib in each_mib]
    assert (found.cards[0].id, found.cards[0].index) == ("n1-nvidia-0", 0)
    assert {c.model for c in found.cards} == {"Tesla-T4"}


@pytest.mark.parametrize("node", [a_node("n1"), a_gpu_node(None, "4"), a_gpu_node("0", "0")])
def test_a_node_that_counts_no_memory_has_no_cards(node: Node) -> None:
    """A node whose label asks for another way of sharing has 0 of these."""
    assert inventory(node) is None


@pytest.mark.parametrize(
    ("memory", "count", "message"),
    [
        ("60", None, "status.capacity[aliyun.com/gpu-count]: is missing or 0: no card is used"),
        ("60", "0", "status.capacity[aliyun.com/gpu-count]: is missing or 0: no card is used"),
        ("60", "65", "status.capacity[aliyun.com/gpu-count]: 65 are more than 64: no card is used"),
        (
            "60436", "4",
            "status.capacity[aliyun.com/gpu-mem]: 60436 for 4 cards is more than a card has, in "
            "units of 1 GiB: no card is used; if the device plugin runs with --memory-unit=MiB, "
            "set memory_unit: MiB",
        ),
        ("many", "4", "status.capacity[aliyun.com/gpu-mem]: "),
        ("-60", "4", "status.capacity[aliyun.com/gpu-mem]: '-60' is no whole number from 0 up"),
        ("60", "1500m", "status.capacity[aliyun.com/gpu-count]: '1500m' is no whole number"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_warning(memory: str, count: str | None, message: str) -> None:
    found = inventory(a_gpu_node(memory, count))
    assert found is not None
    assert found.cards == ()
    assert found.warnings[0].startswith(f"node n1: {message}")
