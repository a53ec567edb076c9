"""The cards that a HAMi device plugin registered on its node, one entry each.

Written as CSV by all plugins but the newest. An entry that cannot be read is reported and left out;
the others count (HAMi gives up the whole node).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit.amounts import INT32_MAX
from tessera_core.dialect_kit.hami_format.pod_annotations import bool_word
from tessera_core.kube.quantity import BadQuantity, quantity_value
from tessera_schema.cards import MIB, Card
from tessera_schema.kube import Node

_FIELDS: Final = ("id", "count", "devmem", "devcore", "type", "numa", "health", "index", "mode")
_OLD_FIELDS: Final = 7
_INT32: Final = re.compile(r"[+-]?[0-9]{1,10}")


class RegisteredCard(Struct, frozen=True, omit_defaults=True):
    """One entry. In JSON a field that is missing has its zero value: a card that does not say
    that it is healthy is not."""

    id: str = ""
    index: int = 0
    count: int = 0
    """Slots: how many containers may share the card."""
    devmem: int = 0
    """MiB, after memory scaling."""
    devcore: int = 0
    """Percent, after core scaling; the vendor's own units for some."""
    type: str = ""
    """Model."""
    numa: int = 0
    mode: str = ""
    health: bool = False


def card_of(entry: RegisteredCard, vendor: str, *, cores_percent: float | None = None) -> Card:
    """The entry as a card. Raises ValueError, saying which field is out of bounds."""
    if not entry.id.strip():
        raise ValueError("it has no id")
    for name in ("count", "devmem", "devcore", "index"):
        number = getattr(entry, name)
        if not 0 <= number <= INT32_MAX:
            raise ValueError(f"{name} {number} is not between 0 and {INT32_MAX}")
    return Card(
        id=entry.id.strip(), index=entry.index, vendor=vendor, model=entry.type,
        memory_bytes=entry.devmem * MIB, slots=entry.count, numa=max(entry.numa, 0),
        cores_percent=entry.devcore if cores_percent is None else cores_percent,
        mode=entry.mode, healthy=entry.health,
    )  # fmt: skip


def plugin_is_gone(node: Node, resource: str) -> bool:
    """Kubelet keeps the resource of a plugin that went away, with an amount of 0."""
    quantity = node.status.allocatable.get(resource)
    try:
        return quantity is not None and quantity_value(quantity) == 0
    except BadQuantity:
        return False


def read_csv(text: str) -> tuple[list[RegisteredCard], list[str]]:
    """The entries that can be read, and what is wrong with the others.

    Entries of seven fields (HAMi up to 2.4) have neither index nor mode: they are numbered as
    they stand, in mode `hami-core`.
    """
    if ":" not in text:
        return [], [f"{text[:64]!r} is no list of cards: every card ends with a colon"]
    entries: list[RegisteredCard] = []
    problems: list[str] = []
    pieces = [piece for piece in text.split(":") if piece.strip()]
    for position, piece in enumerate(pieces):
        try:
            entries.append(_entry(piece, position))
        except ValueError as e:
            problems.append(f"{piece[:128]!r}: {e}")
    return entries, problems


def encode_csv(entries: Sequence[RegisteredCard]) -> str:
    """The list in nine fields."""
    return "".join(
        ",".join(
            (
                e.id, str(e.count), str(e.devmem), str(e.devcore), e.type, str(e.numa),
                str(e.health).lower(), str(e.index), e.mode,
            )
        ) + ":"
        for e in entries
    )  # fmt: skip


def _entry(piece: str, position: int) -> RegisteredCard:
    fields = [field.strip() for field in piece.split(",")]
    if len(fields) not in (_OLD_FIELDS, len(_FIELDS)):
        raise ValueError(f"unexpected field count {len(fields)} in node annotation, write 9")
    named = dict(zip(_FIELDS, fields, strict=False))
    healthy = bool_word(named["health"])
    if healthy is None:
        raise ValueError(f"invalid health field {named['health']!r}, write true or false")
    return RegisteredCard(
        id=named["id"], count=_number(named, "count"), devmem=_number(named, "devmem"),
        devcore=_number(named, "devcore"), type=named["type"], numa=_number(named, "numa"),
        health=healthy, index=_number(named, "index") if "index" in named else position,
        mode=named.get("mode", "hami-core"),
    )  # fmt: skip


def _number(named: dict[str, str], field: str) -> int:
    text = named[field]
    if not _INT32.fullmatch(text) or abs(int(text)) > INT32_MAX:
        raise ValueError(f"invalid {field} field {text!r}, write a whole number of 32 bits")
    return int(text)
