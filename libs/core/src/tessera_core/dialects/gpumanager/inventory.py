"""Cards as a node's capacity shows them, and the capacity that cards amount to.

Nodes advertise 100 core units per card and memory in units of 256 MiB, rounded down over all
cards together; gpu-admission takes the cards as equal and rounds down for each. What cannot be
read is a warning, never an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from tessera_core.dialect_kit import (
    MOST_CARDS,
    BadQuantity,
    Card,
    Inventory,
    Node,
    Precision,
    numbered_card_id,
    quantity_value,
)
from tessera_core.dialects.gpumanager.names import (
    BLOCK,
    DIALECT,
    MOST_BLOCKS,
    VENDOR,
    WHOLE,
    PrefixNames,
)
from tessera_core.dialects.gpumanager.options import GpuManagerOptions


def advertised(cards: Sequence[Card], names: PrefixNames) -> dict[str, int]:
    """The capacity that GPU Manager's node agent advertises for these cards."""
    total = sum(card.memory_bytes for card in cards)
    return {names.core: WHOLE * len(cards), names.memory: total // BLOCK}


def inventories(
    node: Node, options: GpuManagerOptions, all_names: Sequence[PrefixNames]
) -> tuple[Inventory, ...]:
    """The node's cards; of several prefixes the first one that names cards."""
    warnings: list[str] = []
    totals = {n: t for n in all_names if (t := _totals(node, n, warnings)) is not None}
    if not totals:
        return (_inventory((), warnings),) if warnings else ()
    names, (number, blocks) = next(iter(totals.items()))
    for other, total in totals.items():
        if total != (number, blocks):
            warnings.append(
                f"node {node.name}: status.capacity[{other.core}] and [{other.memory}] tell of "
                f"{total[0]} cards with {total[1]} units of memory, [{names.core}] and "
                f"[{names.memory}] of {number} with {blocks}; {names.prefix}/ counts; remove the "
                "device plugin that is not in use"
            )
    model = next((m for k in options.model_labels if (m := node.metadata.labels.get(k))), "")
    return (_inventory(_cards(node, model, number, blocks // number * BLOCK), warnings),)


def _inventory(cards: Sequence[Card], warnings: Sequence[str]) -> Inventory:
    return Inventory(
        vendor=VENDOR,
        source=DIALECT,
        precision=Precision.COUNTED,
        cards=tuple(cards),
        warnings=tuple(warnings),
    )


def _cards(node: Node, model: str, number: int, memory_bytes: int) -> list[Card]:
    return [
        Card(
            id=numbered_card_id(node.name, VENDOR, i), index=i, vendor=VENDOR, model=model,
            memory_bytes=memory_bytes,
        )
        for i in range(number)
    ]  # fmt: skip


def _totals(node: Node, names: PrefixNames, warnings: list[str]) -> tuple[int, int] | None:
    """Number of cards and their memory units together; None where the prefix names none."""
    core = _total(node, names.core, MOST_CARDS * WHOLE, warnings)
    if not core:
        return None
    number, rest = divmod(core, WHOLE)
    if rest:
        warnings.append(
            _say(node, names.core, core, f"is no multiple of {WHOLE} (one card): taken as "
                 f"{number} cards; see what the device plugin advertises")
        )  # fmt: skip
    if not number:
        return None
    blocks = _total(node, names.memory, MOST_BLOCKS, warnings)
    if not blocks:
        quantity = node.status.capacity.get(names.memory, "missing")
        warnings.append(
            _say(node, names.memory, quantity, "the cards' memory is not known, so that only "
                 "whole cards can be given; see what the device plugin advertises")
        )  # fmt: skip
    return number, blocks or 0


def _total(node: Node, resource: str, high: int, warnings: list[str]) -> int | None:
    """The capacity; None, with a warning, for what cannot be read, 0 where there is none."""
    quantity = node.status.capacity.get(resource, 0)
    try:
        number = quantity_value(quantity)
    except BadQuantity as e:
        warnings.append(_say(node, resource, quantity, f"{e}; it is not used"))
        return None
    if not 0 <= number <= high:
        warnings.append(_say(node, resource, quantity, f"must be 0 to {high}; it is not used"))
        return None
    return number


def _say(node: Node, resource: str, quantity: object, what: str) -> str:
    return f"node {node.name}: status.capacity[{resource}]: {quantity}: {what}"
