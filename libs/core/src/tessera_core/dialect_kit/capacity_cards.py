"""Cards of which a node says only totals: so many core units, so many memory units.

The plugins of some vendors advertise nothing else. The cards are taken to be equal, and named by
node and number as HAMi names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit.card_ids import numbered_card_id
from tessera_core.kube.quantity import BadQuantity, integer_quantity
from tessera_schema.cards import MIB, Card, Inventory, Precision
from tessera_schema.kube import Node

MOST_CARDS: Final = 64
"""More on one node is a mistake. The fleet's columns are as wide for every node as for the one with
the most cards: with 64 a call of the filter takes 6 times as long as with 8, with 256 28 times."""


class CapacityScheme(Struct, frozen=True, kw_only=True):
    """How a node's capacity counts one vendor's cards."""

    vendor: str
    dialect: str
    model: str
    core: str
    """Resource that counts core units."""
    memory: str
    """Resource that counts memory units."""
    cores_per_card: int
    memory_unit: int
    """Bytes of one memory unit."""
    memory_by_core: bool = True
    """A card's memory is what belongs to its core units (HAMi's formula), else the total divided
    by the cards: they differ where the cores are no multiple of a card's."""
    slots: int = 100


def cards_from_capacity(how: CapacityScheme, node: Node) -> tuple[Inventory, ...]:
    """The node's cards by its capacity, one for each `cores_per_card` begun; nothing where the
    node names no cores of the kind. What cannot be read is a warning, never an error."""
    if how.core not in node.status.capacity:
        return ()
    warnings: list[str] = []
    cores = capacity_total(node, how.core, warnings)
    memory = capacity_total(node, how.memory, warnings)
    if how.memory not in node.status.capacity:
        warnings.append(
            capacity_warning(
                node, how.memory, "is missing, so the cards have no memory; none is used"
            )
        )
    cards: Sequence[Card] = ()
    if cores and memory:
        number = -(-cores // how.cores_per_card)
        if number > MOST_CARDS:
            warnings.append(
                capacity_warning(
                    node,
                    how.core,
                    f"{number} cards on one node are more than {MOST_CARDS}; none is used",
                )
            )
        else:
            total = memory * how.memory_unit
            each = total * how.cores_per_card // cores if how.memory_by_core else total // number
            cards = _cards(how, node, number, each)
        if cores % how.cores_per_card:
            warnings.append(
                capacity_warning(
                    node, how.core,
                    f"{cores} is no multiple of {how.cores_per_card} (one card): taken as {number} "
                    "equal cards; see what the vendor's plugin advertises",
                )
            )  # fmt: skip
    return counted_inventories(how.vendor, how.dialect, cards, warnings)


def counted_inventories(
    vendor: str, dialect: str, cards: Sequence[Card], warnings: Sequence[str],
    precision: Precision = Precision.COUNTED,
) -> tuple[Inventory, ...]:  # fmt: skip
    """One inventory of what a node's totals or labels say; none where they say nothing."""
    if not cards and not warnings:
        return ()
    return (
        Inventory(
            vendor=vendor, source=dialect, precision=precision, cards=tuple(cards),
            warnings=tuple(warnings),
        ),
    )  # fmt: skip


def _cards(how: CapacityScheme, node: Node, number: int, each_bytes: int) -> list[Card]:
    return [
        Card(
            id=numbered_card_id(node.name, how.vendor, i), index=i, vendor=how.vendor,
            model=how.model, memory_bytes=each_bytes // MIB * MIB, slots=how.slots,
        )
        for i in range(number)
    ]  # fmt: skip


def capacity_total(node: Node, resource: str, warnings: list[str]) -> int:
    """The total of a resource that the node names; 0 where it does not, and, with a warning, where
    the total cannot be read."""
    quantity = node.status.capacity.get(resource, 0)
    try:
        number = integer_quantity(quantity)
    except BadQuantity as e:
        warnings.append(capacity_warning(node, resource, f"{e}; no card is used"))
        return 0
    if number is None or number < 0:
        warnings.append(
            capacity_warning(
                node, resource, f"{quantity!r} is no whole number from 0 up; no card is used"
            )
        )
        return 0
    return number


def capacity_warning(node: Node, resource: str, what: str) -> str:
    """The warning about one resource of the node's capacity."""
    return f"node {node.name}: status.capacity[{resource}]: {what}"
