"""Which rows are wanted, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.occupancy.rows import CardRow, NodeRow, ShareRow, WaitingRow


class BadRowFilter(ValueError):
    """The filter makes no sense; the message names the part and what would do."""


class RowOrder(StrEnum):
    """What comes first."""

    NAME = "name"
    """Nodes by name, cards by index."""
    MEMORY = "memory"
    """The node with the largest part of its memory granted."""
    CORES = "cores"
    """The node with the largest part of its cores granted."""
    USED = "used"
    """The node whose cards are used most."""
    IDLE = "idle"
    """The node with the most memory that is granted and not used."""


class RowFilter(Struct, frozen=True, kw_only=True):
    """What a row must have; empty = anything."""

    namespaces: tuple[str, ...] = ()
    """Of pods; shell patterns, as all of these."""
    nodes: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Parts of a node's or pod's name, all of which must be there."""

    def __bool__(self) -> bool:
        """Whether it wants anything in particular."""
        return bool(self.namespaces or self.nodes or self.dialects or self.names)

    def share(self, row: ShareRow) -> bool:
        """Whether this share is wanted, whatever its node is called."""
        return _any(self.namespaces, row.namespace) and (
            not self.dialects or any(_any(self.dialects, name) for name in row.dialects)
        )

    def waits(self, row: WaitingRow) -> bool:
        """Whether this pod is wanted."""
        dialects = not self.dialects or any(_any(self.dialects, name) for name in row.dialects)
        return dialects and _any(self.namespaces, row.namespace) and _has(self.names, row.pod)


_FIELDS: Final = {
    "ns": "namespaces", "namespace": "namespaces", "node": "nodes", "dialect": "dialects",
}  # fmt: skip


def parse_filter(text: str) -> RowFilter:
    """Reads `ns=ml,web node=gpu-* dialect=hami train`. Raises BadRowFilter."""
    found: dict[str, tuple[str, ...]] = {}
    for part in text.split():
        name, sign, value = part.partition("=")
        if not sign:
            found["names"] = (*found.get("names", ()), part)
            continue
        field = _FIELDS.get(name)
        if field is None:
            raise BadRowFilter(f"{part}: write ns=, node= or dialect=, or a part of a name")
        values = tuple(each for each in value.split(",") if each)
        if not values:
            raise BadRowFilter(f"{part}: write a value after =, or several with commas between")
        found[field] = (*found.get(field, ()), *values)
    return RowFilter(**found)


def selected(rows: Iterable[NodeRow], wanted: RowFilter) -> list[NodeRow]:
    """The nodes with the cards that are wanted: those of which a wanted pod holds a part, where
    something is said of pods. Cards keep all their shares, which is what they are full of."""
    if not wanted:
        return list(rows)
    found = []
    for row in rows:
        if not _any(wanted.nodes, row.name):
            continue
        names = () if _has(wanted.names, row.name) else wanted.names
        if not (wanted.namespaces or wanted.dialects or names):
            found.append(row)
            continue
        cards = tuple(card for card in row.cards if _holds(card, wanted, names))
        if cards:
            found.append(replace(row, cards=cards))
    return found


def ordered(rows: list[NodeRow], by: RowOrder) -> list[NodeRow]:
    """The nodes in this order; those that are equal by name."""
    value = _ORDERS.get(by)
    if value is None:
        return rows
    return sorted(rows, key=lambda row: (-value(row), row.name))


def _holds(card: CardRow, wanted: RowFilter, names: tuple[str, ...]) -> bool:
    return any(wanted.share(share) and _has(names, share.pod) for share in card.shares)


@lru_cache(1 << 16)  # the same names for each share, and each picture
def _any(patterns: tuple[str, ...], value: str) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)


def _has(parts: tuple[str, ...], name: str) -> bool:
    return all(part in name for part in parts)


def _part(have: float, of: float) -> float:
    return have / of if of else 0


def _memory(row: NodeRow) -> float:
    return _part(
        sum(c.memory_bytes for c in row.cards), sum(c.card.memory_bytes for c in row.cards)
    )


def _cores(row: NodeRow) -> float:
    return _part(
        sum(c.cores_percent for c in row.cards), sum(c.card.cores_percent for c in row.cards)
    )


def _used(row: NodeRow) -> float:
    return _part(sum(c.used_percent or 0 for c in row.cards), len(row.cards))


def _idle(row: NodeRow) -> float:
    return sum(
        c.memory_bytes - min(c.used_bytes, c.memory_bytes)
        for c in row.cards
        if c.used_bytes is not None
    )


_ORDERS: Final[Mapping[RowOrder, Callable[[NodeRow], float]]] = {
    RowOrder.MEMORY: _memory, RowOrder.CORES: _cores, RowOrder.USED: _used, RowOrder.IDLE: _idle,
}  # fmt: skip
