"""A fleet as it was when it was looked at last, in the columns that `potential` reads.

Changes are found by comparing, so nobody has to report them, and what is kept is never wrong about
the fleet that is asked about. At 5,000 nodes of 8 cards this takes some tenths of a millisecond.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.packing.catalogue import CardCatalogue
from tessera_core.placement.packing.free_capacity import HostColumns, free_rows
from tessera_core.placement.packing.potential import Rows
from tessera_schema.cards import Card

_CLOSED: Final = ("blocked",)
"""Changes with an agent's silence, while the facts stay as they are."""
_FACTS: Final = ("blocked", "cores_total", "memory_total", "mode", "model", "slots", "vendor")
_USAGE: Final = ("cores_used", "exclusive", "memory_used", "sharers")


class FleetChanges(NamedTuple):
    """What is new since the last time."""

    rows: Ints | None
    """None = everything."""
    facts: bool
    """Whether cards came or went, not only what is used of them."""


class FleetTracker:
    """No fleet was looked at yet."""

    def __init__(self, catalogue: CardCatalogue | None = None) -> None:
        """Kinds get their numbers from `catalogue`."""
        self.catalogue = CardCatalogue() if catalogue is None else catalogue
        self.kind: Ints = np.zeros((0, 0), np.int64)
        """(rows, cards): 0 where nothing may be placed."""
        self.order: Ints = np.zeros(0, np.int64)
        """Row -> place in the fixed order."""
        self.cards = CardColumns((0, 0))
        self._blocked: Bools = np.zeros(0, np.bool_)
        self._facts: list[tuple[Card, ...]] = []
        """The fleet's: while each is the very same tuple, so are the columns made from it."""
        self._hosts: HostColumns | None = None
        self._layout = -1
        self._rows = free_rows(self.cards, self.kind)

    def update(self, fleet: Fleet, hosts: HostColumns | None) -> FleetChanges:
        """Look again. `hosts` are columns over the fleet's rows; None = not known."""
        if self._layout != fleet.layout:
            self.order, self._layout = fixed_order(fleet), fleet.layout
        same = self.cards.vendor.shape == fleet.cards.vendor.shape
        if not same or (hosts is None) != (self._hosts is None):
            return self._begin(fleet, hosts)
        facts = (self._blocked != fleet.blocked) | _differ(self.cards, fleet.cards, _CLOSED)
        if self._facts != fleet.facts:
            self._facts = list(fleet.facts)
            facts |= _differ(self.cards, fleet.cards, _FACTS)
        changed = facts | _differ(self.cards, fleet.cards, _USAGE)
        if hosts is not None and self._hosts is not None:
            for old, new in zip(self._hosts, hosts, strict=True):
                changed |= old != new
        rows = np.flatnonzero(changed)
        if len(rows):
            self._take_in(fleet, hosts, rows, np.flatnonzero(facts))
        return FleetChanges(rows, bool(facts.any()))

    def rows(self, at: Ints | None) -> Rows:
        """Some rows of the fleet; None = all."""
        return self._rows if at is None else _picked(self._rows, at)

    def _begin(self, fleet: Fleet, hosts: HostColumns | None) -> FleetChanges:
        self.cards = fleet.cards.copy(*CardColumns.__slots__)
        self._blocked, self._hosts = fleet.blocked.copy(), _copied(hosts)
        self._facts = list(fleet.facts)
        self.kind = self.catalogue.numbers(fleet.cards) * ~fleet.blocked[:, None]
        self._rows = free_rows(self.cards, self.kind, self._hosts)
        return FleetChanges(None, facts=True)

    def _take_in(self, fleet: Fleet, hosts: HostColumns | None, rows: Ints, facts: Ints) -> None:
        for name in (*_FACTS, *_USAGE):
            getattr(self.cards, name)[rows] = getattr(fleet.cards, name)[rows]
        self._blocked[rows] = fleet.blocked[rows]
        self._hosts = _copied(hosts)
        if len(facts):
            kinds = self.catalogue.numbers(_rows_at(fleet.cards, facts))
            self.kind[facts] = kinds * ~fleet.blocked[facts, None]
        some = None if hosts is None else HostColumns(*(column[rows] for column in hosts))
        fresh = free_rows(_rows_at(self.cards, rows), self.kind[rows], some)
        for column, new in zip(_columns(self._rows), _columns(fresh), strict=True):
            column[rows] = new


def fixed_order(fleet: Fleet) -> Ints:
    """Row -> place, by a hash of the node's name: a restart does not change it, and nodes that are
    neighbours by name are not neighbours here."""
    return np.array([crc32(name.encode()) for name in fleet.names], np.int64)


def _differ(old: CardColumns, new: CardColumns, columns: tuple[str, ...]) -> Bools:
    """The rows where one of the columns differs."""
    differ: Bools = np.zeros(old.vendor.shape, np.bool_, "F")
    for name in columns:
        np.logical_or(differ, getattr(old, name) != getattr(new, name), out=differ)
    rows: Bools = np.logical_or.reduce(differ, axis=1)
    return rows


def _rows_at(cards: CardColumns, rows: Ints) -> CardColumns:
    part = object.__new__(CardColumns)
    for name in CardColumns.__slots__:
        setattr(part, name, getattr(cards, name)[rows])
    return part


def _columns(rows: Rows) -> tuple[np.ndarray[Any, Any], ...]:
    first, free, *rest = rows
    return (first, *free, *rest)


def _picked(rows: Rows, at: Ints) -> Rows:
    return Rows(
        kind=rows.kind[at],
        free=tuple(axis[at] for axis in rows.free),
        idle=rows.idle[at],
        cpu=rows.cpu[at],
        memory=rows.memory[at],
        cpu_per_card=rows.cpu_per_card[at],
        memory_per_card=rows.memory_per_card[at],
    )


def _copied(hosts: HostColumns | None) -> HostColumns | None:
    return None if hosts is None else HostColumns(*(column.copy() for column in hosts))
