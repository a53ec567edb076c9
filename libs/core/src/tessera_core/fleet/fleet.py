"""The cards of all nodes in columns, with what is used of them.

A filter over thousands of nodes is then a few array operations
(`tessera_core.placement.predicates`). Rows are nodes, columns their cards; a free row has no card.
The ledger owns the truth about who holds what and updates the fleet.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import copy as copy_of
from itertools import repeat
from typing import Final

import numpy as np

from tessera_core.fleet import cores
from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.fleet.charges import Charge
from tessera_core.fleet.closed_cards import closed, with_reserved
from tessera_core.fleet.columns import (
    LENT,
    NO_PRICE,
    NO_VENDOR,
    USAGE,
    CardColumns,
    CardPrice,
    NodeView,
    columns_by_vendor,
)
from tessera_core.fleet.name_table import NameTable
from tessera_core.fleet.overcommit import is_overcommitted, price
from tessera_core.fleet.shadow_cards import ShadowCards, by_node
from tessera_schema.cards import Card

_MOST_CHANGES: Final = 4_096
_NONE: Final[Mapping[str, str]] = {}


class Fleet:
    """Nodes and their cards in columns."""

    def __init__(self) -> None:
        """No nodes."""
        self.cards = CardColumns((0, 0))
        self.names: list[str] = []
        """Row -> node's name; empty for a free row."""
        self.rows: dict[str, int] = {}
        self.facts: list[tuple[Card, ...]] = []
        """Row -> cards, by column."""
        self.blocked: Bools = np.zeros(0, np.bool_)
        """Rows where nothing may be placed, whatever is free."""
        self.vendors, self.models, self.modes = NameTable(), NameTable(), NameTable()
        self.pools = NameTable()
        self.pool: Ints = np.zeros(0, np.int64)
        """Row -> number of its node's pool."""
        self.layout = 0
        """Changes whenever a row gets or loses its node."""
        self.changes: list[tuple[int, int]] = []
        """Cards, by row and column, whose use has changed, in order. It is another list after any
        other change of nodes and cards, `blocked` and pressure apart, and when it is too long."""
        self.pressed: dict[str, Mapping[str, int]] = {}
        """Node -> card's id -> its pressure, where that is not 0. Set by `set_pressure`."""
        self.priced: dict[str, Mapping[str, CardPrice]] = {}
        """Node -> card's id -> its price, where it has one. Set by `set_prices`."""
        self.wants: dict[tuple[str, float], float] = {}
        """Namespace and cores asked for, percent -> GPU time that such a pod is expected to want,
        percent of each card. Set with the prices, by their reader."""
        self.given: dict[str, frozenset[str]] = {}
        """Node -> vendors whose cards Tessera's agent gives there. Set by the reader of nodes."""
        self.missing: dict[str, frozenset[str]] = {}
        """Node -> vendors whose cards are expected there and not published. Set by the reader of
        nodes."""
        self.silent: dict[str, frozenset[str]] = {}
        """Node -> vendors whose agent is silent there. Set by `set_silent`."""
        self.reserved: tuple[ShadowCards, ...] = ()
        """Cards that gangs in line will get, by key of the gang. Set by `set_reserved`."""
        self._reserved: Mapping[str, frozenset[str]] = {}
        """The same by node."""
        self._places: dict[str, list[tuple[int, int]]] | None = None
        """None until it is read: only what places pods does."""
        self._columns: list[Mapping[str, Ints]] = []
        self._renamed: list[Mapping[str, str]] = []
        """Row -> former id of a card -> its id."""
        self._rank: Ints | None = None
        self._free_rows: list[int] = []
        self._shared = False
        """True while a snapshot shares the facts."""
        self._hints_shared = False
        """True while one shares what hints say."""
        self._lending = False

    # -- nodes

    def put(self, node: str, cards: Sequence[Card]) -> None:
        """Add a node or replace its cards, of which nothing is used yet. Ids are unique on it."""
        self._own()
        if node in self.rows:
            self._clear(self.rows[node])
        row = self.rows.get(node)
        if row is None:
            if not self._free_rows:
                self._resize(max(8, len(self.names) // 8), len(cards))
            row = self._free_rows.pop()
            self.rows[node], self.names[row] = row, node
            self._new_layout()
        if len(cards) > self.cards.vendor.shape[1]:
            self._resize(0, len(cards))
        self.facts[row] = tuple(cards)
        self.pool[row] = self.pools.take(_pool_of(cards))
        for column, card in enumerate(cards):
            self._fill(row, column, card)
        self._place(row)
        self._columns[row] = columns_by_vendor(tuple(c.vendor for c in cards))

    def remove(self, node: str) -> None:
        """Forget a node; what the ledger holds on it stays in the ledger."""
        self._own()
        row = self.rows.pop(node, None)
        if row is not None:
            self._clear(row)
            self.names[row] = ""
            self.blocked[row] = False
            self._free_rows.append(row)
            self._new_layout()

    def charge(self, node: str, card_id: str, charge: Charge, sign: int = 1) -> None:
        """Add (or with sign -1 take back) a charge; a card that is not there is left out."""
        place = self.locate(node, card_id)
        if place is not None:
            if charge.lent_slots:
                self.begin_lending()
            c = self.cards
            c.memory_used[place] += sign * self.memory_cost(place, charge)
            c.cores_used[place] += sign * charge.cores_milli
            c.sharers[place] += sign * charge.slots
            c.exclusive[place] += sign * charge.exclusive
            c.lent_memory[place] += sign * charge.lent_bytes
            c.lent_slots[place] += sign * charge.lent_slots
            if len(self.changes) >= _MOST_CHANGES:
                self.changes = []
            self.changes.append(place)

    def begin_lending(self) -> None:
        """Before memory is lent: columns that have been 0 are no snapshot's any more."""
        if not self._lending:
            self._lending, self.cards, self.changes = True, self.cards.copy(*LENT), []

    def memory_cost(self, place: tuple[int, int], charge: Charge) -> int:
        """What a charge takes of the memory that can be granted of a card, by row and column."""
        card = self.facts[place[0]][place[1]]
        if not is_overcommitted(card):
            return charge.memory_bytes
        on_card = price(charge.resident_bytes, card.memory_bytes, card.physical_bytes)
        return max(charge.memory_bytes, on_card)

    def set_pressure(self, node: str, pressures: Mapping[str, int]) -> None:
        """Set the pressure of a node's cards; of those not named it is 0. It lasts until it is set
        again, also while the node is not here."""
        if self.pressed.get(node, {}) == pressures:
            return
        self.pressed.pop(node, None)
        if pressures:
            self.pressed[node] = dict(pressures)
        row = self.rows.get(node)
        if row is not None:
            self._own_hints()
            column = self.cards.pressure
            for i, card in enumerate(self.facts[row]):
                column[row, i] = pressures.get(card.id, 0)

    def set_prices(self, node: str, prices: Mapping[str, CardPrice]) -> None:
        """Set the prices of a node's cards; those not named have none. They last as pressure
        does."""
        if self.priced.get(node, {}) == prices:
            return
        self.priced.pop(node, None)
        if prices:
            self.priced[node] = dict(prices)
        row = self.rows.get(node)
        if row is not None:
            self._own_hints()
            for i, card in enumerate(self.facts[row]):
                self.cards.set_price((row, i), prices.get(card.id, NO_PRICE))

    def set_silent(self, silent: Mapping[str, frozenset[str]]) -> None:
        """Set the vendors whose agent is silent, for each of these nodes. It lasts until it is set
        again, also while the node is not here. What is used of the cards does not change."""
        for node, vendors in silent.items():
            self.silent.pop(node, None)
            if vendors:
                self.silent[node] = vendors
        self._close(silent)

    def set_reserved(self, reserved: tuple[ShadowCards, ...]) -> None:
        """Set the cards that are closed for all but those that may use them (`opened`). It lasts as
        silence does."""
        before, self.reserved, self._reserved = self._reserved, reserved, by_node(reserved)
        self._close({*before, *self._reserved})

    def opened(self, keys: Container[str] | None = None, also_closed: Bools | None = None) -> Fleet:
        """The same cards for one that may use what is reserved for these, None = for anyone, and no
        card of `also_closed`, (nodes, cards). It is to be read, and to be made again after any
        change but that of use. It shares what is used."""
        copy = copy_of(self)
        copy.cards = self.cards.copy()
        mine = (each.cards for each in self.reserved if keys is None or each.key in keys)
        places = [place for cards in mine for place in self.places_of(cards)]
        copy.cards.blocked = with_reserved(self.cards.blocked, places, also_closed)
        return copy

    def _close(self, nodes: Iterable[str]) -> None:
        column = self.cards.blocked = self.cards.blocked.copy(order="K")  # not a snapshot's
        self.changes = []
        for node in nodes:
            row = self.rows.get(node)
            if row is not None:
                for i, card in enumerate(self.facts[row]):
                    column[row, i] = self._closed(node, card)

    def _closed(self, node: str, card: Card) -> int:
        return closed(card, self.silent.get(node, ()), self._reserved.get(node, ()))

    # -- reading

    def locate(self, node: str, card_id: str) -> tuple[int, int] | None:
        """Row and column of a card, by its id or one that it had before."""
        row = self.rows.get(node)
        if row is None:
            return None
        card_id = self._renamed[row].get(card_id, card_id)
        for i, card in enumerate(self.facts[row]):
            if card.id == card_id:
                return row, i
        return None

    def places_of(self, cards: Mapping[str, Iterable[str]]) -> Iterator[tuple[int, int]]:
        """Row and column of the cards of these ids, by node; those that are not there have none."""
        places = (self.locate(node, each) for node, ids in cards.items() for each in ids)
        return (place for place in places if place is not None)

    def rename(self, node: str, old_id: str, vendor: str, index: int) -> None:
        """A grant names a card that is not there: its vendor's card of that index is meant, if
        there is one. Cards get other ids when a better source names them."""
        row = self.rows.get(node)
        if row is not None:
            facts = self.facts[row]
            new = next((c.id for c in facts if (c.vendor, c.index) == (vendor, index)), None)
            if new is not None:
                self._renamed[row] = {**self._renamed[row], old_id: new}

    def places(self, card_id: str) -> Sequence[tuple[int, int]]:
        """Rows and columns of every card of that id, on whatever node."""
        if self._places is None:
            self._places = {}
            for row in self.rows.values():
                self._place(row)
        return self._places.get(card_id, ())

    def card(self, node: str, card_id: str) -> Card | None:
        """The facts of a card."""
        place = self.locate(node, card_id)
        return None if place is None else self.facts[place[0]][place[1]]

    def view(self, row: int, vendor: str) -> NodeView | None:
        """A private view of one vendor's cards on a node; None where it has none."""
        if vendor not in self._columns[row]:
            return None
        columns, facts = self.columns(row, vendor), self.facts[row]
        if not isinstance(columns, slice):
            facts = tuple(facts[i] for i in columns)
        return NodeView(self.names[row], facts, self.cards.at(row, columns))

    def columns(self, row: int, vendor: str) -> Ints | slice:
        """Where a vendor's cards are in a node's row."""
        columns, count = self._columns[row][vendor], len(self.facts[row])
        return columns if len(columns) != count else slice(count)

    def of_vendor(self, vendor: str) -> Bools:
        """The cards of a vendor, (nodes, cards); none for a vendor that no node has."""
        number = self.vendors.known(vendor)
        if number is None:
            return np.zeros_like(self.cards.vendor, np.bool_)
        mask: Bools = self.cards.vendor == number
        return mask

    def rows_of(self, names: Sequence[str]) -> Ints:
        """Each node's row, -1 where it is not known."""
        return np.fromiter(map(self.rows.get, names, repeat(-1)), np.int64, len(names))

    def only(self, *nodes: str) -> Bools:
        """The rows, of which only those of these nodes are set; none where they are not known."""
        rows = np.zeros(len(self.names), np.bool_)
        rows[[self.rows[node] for node in nodes if node in self.rows]] = True
        return rows

    @property
    def rank(self) -> Ints:
        """Row -> position of the node's name in alphabetical order: the last tie-break."""
        if self._rank is None:
            order = sorted(range(len(self.names)), key=self.names.__getitem__)
            self._rank = np.empty(len(order), np.int64)
            self._rank[order] = np.arange(len(order))
        return self._rank

    def snapshot(self) -> Fleet:
        """A copy for reading (but for `places`), which later changes leave alone."""
        self._shared = self._hints_shared = True
        copy = copy_of(self)
        copy.cards = self.cards.copy(*USAGE, *(LENT if self._lending else ()))
        copy.blocked, copy.changes = self.blocked.copy(), []
        return copy

    def part(self, rows: Ints) -> Fleet:
        """A copy of these rows alone, for reading and for charges."""
        part, numbers = copy_of(self), rows.tolist()
        part.cards, part.blocked = self.cards.rows(rows), self.blocked[rows]
        part.pool, part.changes, part._rank = self.pool[rows], [], None
        for name in ("names", "facts", "_columns", "_renamed"):
            setattr(part, name, [getattr(self, name)[row] for row in numbers])
        part.rows = {name: row for row, name in enumerate(part.names) if name}
        part._places = {}
        for row in range(len(part.facts)):
            part._place(row)
        return part

    # -- rows

    def _own(self) -> None:
        """Before facts change: leave those that snapshots share to them."""
        self.changes = []
        if self._shared:
            self._shared = False
            self.cards = self.cards.copy(*CardColumns.__slots__)
            self.names, self.facts = list(self.names), list(self.facts)
            self._columns, self.rows = list(self._columns), dict(self.rows)
            self._renamed = list(self._renamed)
            self.pool = self.pool.copy()
            self.models, self.modes = self.models.copy(), self.modes.copy()
            self.vendors, self.pools = self.vendors.copy(), self.pools.copy()

    def _own_hints(self) -> None:
        """Before what hints say changes: leave to snapshots what they share."""
        if self._hints_shared:
            self._hints_shared = False
            self.cards = self.cards.copy("expected", "pressure", "priced", "prices")

    def _new_layout(self) -> None:
        self._rank = None
        self.layout += 1

    def _fill(self, row: int, column: int, card: Card) -> None:
        c, at = self.cards, (row, column)
        c.vendor[at] = self.vendors.take(card.vendor)
        c.model[at] = self.models.take(card.model)
        c.mode[at] = self.modes.take(card.mode)
        c.numa[at] = card.numa
        c.memory_total[at] = card.memory_bytes
        c.memory_physical[at] = card.physical_bytes if is_overcommitted(card) else card.memory_bytes
        c.cores_total[at] = cores.milli(card.cores_percent)
        c.slots[at] = card.slots
        c.pressure[at] = self.pressed.get(self.names[row], {}).get(card.id, 0)
        c.set_price(at, self.priced.get(self.names[row], {}).get(card.id, NO_PRICE))
        c.blocked[at] = self._closed(self.names[row], card)

    def _place(self, row: int) -> None:
        """Remember where the row's cards are, if that is read."""
        if self._places is not None:
            for column, card in enumerate(self.facts[row]):
                self._places.setdefault(card.id, []).append((row, column))

    def _clear(self, row: int) -> None:
        places = {} if self._places is None else self._places
        for card in self.facts[row]:
            left = [p for p in places.pop(card.id, ()) if p[0] != row]
            if left:
                places[card.id] = left
            self.models.drop(card.model)
            self.modes.drop(card.mode)
        self.pools.drop(self.pools.of[self.pool[row]])
        self.pool[row] = 0
        for name in CardColumns.__slots__:
            getattr(self.cards, name)[row] = NO_VENDOR if name == "vendor" else 0
        self.facts[row], self._columns[row], self._renamed[row] = (), {}, _NONE

    def _resize(self, more_rows: int, columns: int) -> None:
        """Keep every row, add `more_rows` free ones, and have at least so many columns."""
        rows, had = self.cards.vendor.shape
        wider = CardColumns((rows + more_rows, max(columns, had)))
        for name in CardColumns.__slots__:
            getattr(wider, name)[:rows, :had] = getattr(self.cards, name)
        self.cards = wider
        self.names += [""] * more_rows
        self.facts += [()] * more_rows
        self._columns += [{}] * more_rows
        self._renamed += [_NONE] * more_rows
        self.pool = np.concatenate([self.pool, np.zeros(more_rows, np.int64)])
        self.blocked = np.concatenate([self.blocked, np.zeros(more_rows, np.bool_)])
        self._free_rows += range(rows + more_rows - 1, rows - 1, -1)


def _pool_of(cards: Sequence[Card]) -> str:
    return next((c.siting.pool for c in cards if c.siting), "")
