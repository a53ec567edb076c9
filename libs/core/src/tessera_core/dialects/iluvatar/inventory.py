"""Iluvatar's cards as their node shows them: registered model by model, or only counted.

Counted ones are served in the older form, registered ones in today's. Where a node counts the cards
that it registers, they are served in both, and their model's name has both words.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tessera_core.dialect_kit import (
    CapacityScheme,
    Card,
    Custom,
    Inventory,
    Node,
    Precision,
    cards_from_capacity,
)
from tessera_core.dialect_kit.hami_format import card_of, plugin_is_gone, read_csv
from tessera_core.dialects.iluvatar.options import (
    CORES,
    LEGACY_WORD,
    MEMORY_UNIT,
    NAME,
    Form,
)


def inventory(
    forms: Sequence[Form], node: Node, _customs: Sequence[Custom]
) -> tuple[Inventory, ...]:
    """Both sources where both are there; the registered one is the more precise."""
    found: list[Inventory] = []
    registered = [form for form in forms if form.register in node.metadata.annotations]
    for form in forms:
        if not form.model:
            counting = CapacityScheme(
                vendor=NAME, dialect=NAME, model=LEGACY_WORD, core=form.core, memory=form.memory,
                cores_per_card=CORES, memory_unit=MEMORY_UNIT,
            )  # fmt: skip
            found += cards_from_capacity(counting, node)
    if not registered:
        return tuple(found)
    by_name = _registered(registered, node)
    if any(counted.cards for counted in found):
        by_name = replace(by_name, cards=tuple(_in_both_forms(card) for card in by_name.cards))
    return (by_name, *found)


def _in_both_forms(card: Card) -> Card:
    return replace(card, model=f"{LEGACY_WORD} {card.model}")


def _registered(forms: Sequence[Form], node: Node) -> Inventory:
    cards: list[Card] = []
    warnings: list[str] = []
    for form in forms:
        entries, problems = read_csv(node.metadata.annotations[form.register])
        of_model = []
        for entry in entries:
            try:
                of_model.append(card_of(entry, NAME))
            except ValueError as e:
                problems.append(f"card {entry.id!r}: {e}")
        if of_model and plugin_is_gone(node, form.count):
            problems.append(
                f"{form.count} is 0 in status.allocatable, so its cards take no pods: "
                "see whether the vendor's plugin runs"
            )
            of_model = [replace(card, healthy=False) for card in of_model]
        cards += of_model
        warnings += [f"node {node.name}: annotation {form.register}: {p}" for p in problems]
    return Inventory(
        vendor=NAME, source=NAME, precision=Precision.REGISTERED,
        cards=_numbered(cards), warnings=tuple(warnings),
    )  # fmt: skip


def _numbered(cards: Sequence[Card]) -> tuple[Card, ...]:
    """Cards whose numbers repeat (one register for each model) are numbered as they stand."""
    if len({card.index for card in cards}) == len(cards):
        return tuple(cards)
    return tuple(replace(card, index=i) for i, card in enumerate(cards))
