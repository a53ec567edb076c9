"""The cards that Volcano's device plugins publish on a node.

gpushare publishes totals in the capacity and the numbers of unhealthy cards in an annotation; vgpu
registers card by card. Whatever cannot be read is a warning, and the rest is used.
"""

from __future__ import annotations

from typing import Final

from tessera_core.dialect_kit import (
    INT32_MAX,
    MIB,
    MOST_CARDS,
    BadQuantity,
    Card,
    Inventory,
    Node,
    Precision,
    Quantity,
    numbered_card_id,
    quantity_value,
)
from tessera_core.dialects.volcano import codec, names
from tessera_core.dialects.volcano.options import VolcanoOptions

_OLD_FIELDS, _FIELDS = 5, 6
_HEALTHY: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_SAYS_UNHEALTHY: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_MODES: Final = frozenset({names.HAMI_CORE, names.MIG, names.MPS})


def inventories(node: Node, options: VolcanoOptions) -> tuple[Inventory, ...]:
    """What the node says, by totals and card by card."""
    found = (_counted(node, options), _registered(node, options))
    return tuple(i for i in found if i.cards or i.warnings)


def _inventory(precision: Precision, cards: list[Card], warnings: list[str]) -> Inventory:
    return Inventory(
        vendor=names.VENDOR,
        source=names.DIALECT,
        precision=precision,
        cards=tuple(cards),
        warnings=tuple(warnings),
    )


# -- totals in the capacity


def _counted(node: Node, options: VolcanoOptions) -> Inventory:
    """Equal cards, each with its part of the total, rounded down to whole units.

    A node in number mode may lack gpu-memory: its cards' memory is then unknown (0), so whole
    cards are given and parts are not.
    """
    warnings: list[str] = []
    cards: list[Card] = []
    number = _total(node, options.gpu_number_resource, warnings)
    memory = _total(node, options.gpu_memory_resource, warnings)
    if number is None or memory is None:
        return _inventory(Precision.COUNTED, cards, warnings)
    each = memory // number * options.gpu_memory_factor if number else 0
    if memory and not number:
        problem = f"no card is used without a number of cards for {memory} units of memory"
        warnings.append(_say(node, options.gpu_number_resource, number, problem))
    elif number > MOST_CARDS:
        problem = f"at most {MOST_CARDS} cards are read; none is used"
        warnings.append(_say(node, options.gpu_number_resource, number, problem))
    elif each > INT32_MAX:
        problem = f"{each} MiB for one card is beyond belief; none is used"
        warnings.append(_say(node, options.gpu_memory_resource, memory, problem))
    else:
        unhealthy = _unhealthy(node, number, warnings)
        cards = [_counted_card(node, i, each, healthy=i not in unhealthy) for i in range(number)]
    return _inventory(Precision.COUNTED, cards, warnings)


def _counted_card(node: Node, index: int, mib: int, *, healthy: bool) -> Card:
    return Card(
        id=numbered_card_id(node.name, names.VENDOR, index),
        index=index,
        vendor=names.VENDOR,
        memory_bytes=mib * MIB,
        healthy=healthy,
    )


def _say(node: Node, resource: str, quantity: object, problem: str) -> str:
    return f"node {node.name}: status.capacity[{resource}]: {quantity}: {problem}"


def _total(node: Node, resource: str, warnings: list[str]) -> int | None:
    """The capacity, 0 where there is none; None, with a warning, for what cannot be read."""
    quantity: Quantity = node.status.capacity.get(resource, 0)
    try:
        number = quantity_value(quantity)
    except BadQuantity as e:
        warnings.append(_say(node, resource, quantity, f"{e}; no card is used"))
        return None
    if number < 0:
        warnings.append(_say(node, resource, quantity, "must be 0 or more; no card is used"))
        return None
    return number


def _unhealthy(node: Node, number: int, warnings: list[str]) -> frozenset[int]:
    """Numbers of unhealthy cards. Each must stand alone: ` 3` is not read, as upstream."""
    text = node.metadata.annotations.get(names.UNHEALTHY_IDS)
    unhealthy = set()
    for piece in text.split(",") if text else ():
        index = codec.integer(piece)
        if index is not None and 0 <= index < number:
            unhealthy.add(index)
        else:
            warnings.append(
                f"node {node.name}: metadata.annotations[{names.UNHEALTHY_IDS}]: {piece[:64]!r} is "
                f"no card from 0 to {number - 1} and is skipped; write numbers without spaces, "
                "such as 1,3"
            )
    return frozenset(unhealthy)


# -- the register


def _registered(node: Node, options: VolcanoOptions) -> Inventory:
    """`UUID,slots,<memory>,TYPE,health,mode:` for each card; the plugin of 2023 wrote no mode."""
    text = node.metadata.annotations.get(names.VGPU_REGISTER)
    warnings: list[str] = []
    cards: list[Card] = []
    if text is None:
        return _inventory(Precision.REGISTERED, cards, warnings)
    missing = _not_allocatable(node, options)
    if ":" not in text:
        warnings.append(_register_says(node, text, "has no ':' after each card; no card is used"))
    elif missing:
        problem = f"status.allocatable[{missing}] is missing or 0; no card is used"
        warnings.append(_register_says(node, text, problem))
    else:
        cards = _register_cards(node, text, options, warnings)
    return _inventory(Precision.REGISTERED, cards, warnings)


def _register_says(node: Node, piece: str, problem: str) -> str:
    where = f"node {node.name}: metadata.annotations[{names.VGPU_REGISTER}]"
    return f"{where}: {piece[:80]!r}: {problem}; restart Volcano's vgpu device plugin"


def _not_allocatable(node: Node, options: VolcanoOptions) -> str:
    """The first resource that the node should offer next to its register and does not."""
    needed = (
        options.vgpu_number_resource,
        options.vgpu_cores_resource,
        options.vgpu_memory_resource,
    )
    for resource in needed:
        try:
            if quantity_value(node.status.allocatable.get(resource, 0)) > 0:
                continue
        except BadQuantity:
            pass
        return resource
    return ""


def _register_cards(
    node: Node, text: str, options: VolcanoOptions, warnings: list[str]
) -> list[Card]:
    """The readable entries; a card's index is its place in the text."""
    cards: dict[str, Card] = {}
    for index, piece in enumerate(text.split(":", MOST_CARDS)[:MOST_CARDS]):
        if not piece.strip():
            continue
        found = _register_card(index, piece, options)
        if isinstance(found, str):
            warnings.append(_register_says(node, piece, f"{found}; the card is skipped"))
        elif found.id in cards:
            warnings.append(_register_says(node, piece, "is listed twice; the first one counts"))
        else:
            cards[found.id] = found
            if found.mode == names.MIG:
                problem = "the card is in MIG mode and left alone: Tessera gives no MIG instances"
                warnings.append(f"node {node.name}: {found.id}: {problem}")
    return list(cards.values())


def _register_card(index: int, piece: str, options: VolcanoOptions) -> Card | str:
    """The card, or what is wrong with its entry."""
    fields = piece.strip().split(",")
    if len(fields) < _OLD_FIELDS or not fields[0]:
        return "must be UUID,slots,MiB,TYPE,health,mode"
    slots, memory = codec.integer(fields[1]), codec.integer(fields[2])
    if slots is None or not 0 < slots <= INT32_MAX:
        return f"slots {fields[1]!r} must be a number above 0"
    if memory is None or not 0 < memory <= INT32_MAX // options.vgpu_memory_factor:
        return f"memory {fields[2]!r} must be a number above 0"
    if fields[4] not in _HEALTHY | _SAYS_UNHEALTHY:
        return f"health {fields[4]!r} must be true or false"
    mode = fields[5] if len(fields) >= _FIELDS else names.HAMI_CORE
    return Card(
        id=fields[0],
        index=index,
        vendor=names.VENDOR,
        model=fields[3],
        memory_bytes=memory * options.vgpu_memory_factor * MIB,
        slots=slots,
        mode=names.MIG if mode == names.MIG else names.HAMI_CORE,
        healthy=fields[4] in _HEALTHY,
    )
