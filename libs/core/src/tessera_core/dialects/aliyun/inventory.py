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
    BadQuantity,
    Card,
    Inventory,
    MemoryUnit,
    Node,
    Precision,
    integer_quantity,
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
    if not cards and not warnings:
        return ()
    return (
        Inventory(
            vendor=VENDOR, source=DIALECT, precision=Precision.COUNTED, cards=tuple(cards),
            warnings=tuple(warnings),
        ),
    )  # fmt: skip


def _cards(node: Node, options: AliyunOptions, warnings: list[str]) -> Sequence[Card]:
    units = _total(node, options.memory, warnings)
    number = _total(node, NODE_COUNT, warnings)
    if not units or not number:
        if units and not warnings:
            warnings.append(_sentence(node, NODE_COUNT, f"is missing or 0: {_NONE_USED}"))
        return ()
    each = units // number
    if number > MOST_CARDS:
        warnings.append(
            _sentence(node, NODE_COUNT, f"{number} are more than {MOST_CARDS}: {_NONE_USED}")
        )
        return ()
    if each > MemoryUnit(options.unit_bytes).most:
        warnings.append(
            _sentence(
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


def _total(node: Node, resource: str, warnings: list[str]) -> int:
    """The total of a resource; 0, with a warning, where it cannot be read."""
    quantity = node.status.capacity.get(resource, 0)
    try:
        number = integer_quantity(quantity)
    except BadQuantity as e:
        warnings.append(_sentence(node, resource, f"{e}; {_NONE_USED}"))
        return 0
    if number is None or number < 0:
        warnings.append(
            _sentence(node, resource, f"{quantity!r} is no whole number from 0 up; {_NONE_USED}")
        )
        return 0
    return number


def _sentence(node: Node, resource: str, what: str) -> str:
    return f"node {node.name}: status.capacity[{resource}]: {what}"
