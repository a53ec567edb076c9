"""Cards as GPU Feature Discovery labels a node: how many, of what memory and model, and in how many
replicas each is listed.

Which cards they are no label says, and the plugin chooses among them: such cards count in plans
alone (`Precision.LABELLED`). What cannot be read is a warning, never an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tessera_core.dialect_kit import (
    MIB,
    MOST_CARD_BYTES,
    MOST_CARDS,
    Card,
    Custom,
    Inventory,
    Node,
    Precision,
    Siting,
    counted_inventories,
    numbered_card_id,
)
from tessera_core.dialects.replicas.names import (
    COUNT,
    DIALECT,
    MEMORY,
    MIG_PART,
    PRODUCT,
    REPLICAS,
    SHARED_SUFFIX,
    STRATEGY,
    VENDOR,
    ReplicasOptions,
)

_DIGITS: Final = 9
_MOST_REPLICAS: Final = 1000
_MPS: Final = "mps"
UNSHARED_SLOTS: Final = 100
"""Of a card that the plugin does not share: as many as a card of Tessera's agent has."""
_FIX: Final = "no card is used; see what GPU Feature Discovery writes"


def inventories(
    options: ReplicasOptions, node: Node, _customs: Sequence[Custom]
) -> tuple[Inventory, ...]:
    """The node's cards; nothing where no label says how many and of what memory."""
    labels = node.metadata.labels
    if COUNT not in labels or MEMORY not in labels:
        return ()
    warnings: list[str] = []
    cards = _cards(options, node, warnings)
    return counted_inventories(VENDOR, DIALECT, cards, warnings, Precision.LABELLED)


def _cards(options: ReplicasOptions, node: Node, warnings: list[str]) -> Sequence[Card]:
    labels = node.metadata.labels
    product = labels.get(PRODUCT, "")
    if MIG_PART in product:
        warnings.append(
            f"node {node.name}: label {PRODUCT}: {product}: cards in MIG mode are left alone"
        )
        return ()
    number = _number(node, COUNT, MOST_CARDS, warnings)
    mib = _number(node, MEMORY, MOST_CARD_BYTES // MIB, warnings)
    if not number or not mib:
        return ()
    replicas = options.replicas or replicas_of(node)
    known = {STRATEGY: labels[STRATEGY]} if STRATEGY in labels else {}
    return [
        Card(
            id=numbered_card_id(node.name, VENDOR, i), index=i, vendor=VENDOR,
            model=product.removesuffix(SHARED_SUFFIX), memory_bytes=mib * MIB,
            mode=_MPS if labels.get(STRATEGY) == _MPS else "",
            slots=replicas if replicas > 1 else UNSHARED_SLOTS, siting=Siting(labels=known),
        )
        for i in range(number)
    ]  # fmt: skip


def replicas_of(node: Node) -> int:
    """Replicas of each card of the node, by its label; 1 where they are not shared, or where the
    label is no number."""
    text = node.metadata.labels.get(REPLICAS, "")
    number = int(text) if text.isdecimal() and len(text) <= _DIGITS else 1
    return min(max(number, 1), _MOST_REPLICAS)


def _number(node: Node, label: str, most: int, warnings: list[str]) -> int:
    """The label's number; 0, with a warning, for what is none up to `most`."""
    text = node.metadata.labels[label]
    number = int(text) if text.isdecimal() and len(text) <= _DIGITS else -1
    if 0 <= number <= most:
        return number
    warnings.append(
        f"node {node.name}: label {label}: {text[:80]!r} is no number from 0 to {most}: {_FIX}"
    )
    return 0
