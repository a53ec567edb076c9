"""Cards as a node's capacity counts them: `aliyun.com/gpu-count` equal cards, and the units of
memory of all of them together.

The extender divides the total by the count and rounds down. The device plugin lists as many units
for each card as its first card has. Unhealthy cards are numbers in a ConfigMap `unhealthy-gpu-
<node>`, which is not read. What cannot be read is a warning, never an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tessera_core.dialect_kit import (
    MOST_CARDS,
    Card,
    Inventory,
    MemoryUnit,
    Node,
    capacity_total,
    capacity_warning,
    counted_inventories,
    numbered_card_id,
)
from tessera_core.dialects.aliyun.names import (
    DIALECT,
    MODEL_LABEL,
    NODE_COUNT,
    VENDOR,
    AliyunOptions,
)

_NONE_USED: Final = "no card is used"


def inventories(node: Node, options: AliyunOptions) -> tuple[Inventory, ...]:
    """The node's cards; nothing where it counts none."""
    if options.memory not in node.status.capacity:
        return ()
    warnings: list[str] = []
    cards = _cards(node, options, warnings)
    return counted_inventories(VENDOR, DIALECT, cards, warnings)


def _cards(node: Node, options: AliyunOptions, warnings: list[str]) -> Sequence[Card]:
    units = capacity_total(node, options.memory, warnings)
    number = capacity_total(node, NODE_COUNT, warnings)
    if not units or not number:
        if units and not warnings:
            warnings.append(capacity_warning(node, NODE_COUNT, f"is missing or 0: {_NONE_USED}"))
        return ()
    each = units // number
    if number > MOST_CARDS:
        warnings.append(
            capacity_warning(node, NODE_COUNT, f"{number} are more than {MOST_CARDS}: {_NONE_USED}")
        )
        return ()
    if each > MemoryUnit(options.unit_bytes).most:
        warnings.append(
            capacity_warning(
                node, options.memory,
                f"{units} for {number} cards is more than a card has, in units of 1 "
                f"{options.memory_unit}: {_NONE_USED}; if the device plugin runs with "
                "--memory-unit=MiB, set memory_unit: MiB",
            )
        )  # fmt: skip
        return ()
    model = node.metadata.labels.get(MODEL_LABEL, "")
    return [
        Card(
            id=numbered_card_id(node.name, VENDOR, i), index=i, vendor=VENDOR, model=model,
            memory_bytes=each * options.unit_bytes,
        )
        for i in range(number)
    ]  # fmt: skip
