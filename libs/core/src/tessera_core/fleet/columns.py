"""Columns over cards: the same arrays and tests serve one node and five thousand.

`CardColumns` holds what can be used and what is, in arrays of one shape: (cards,) for a node while
a pod is being fitted to it, (nodes, cards) for the whole fleet. `tessera_core.placement.predicates`
tests them. The fleet's arrays lie column by column in memory (Fortran order): the sum over a node's
cards is then a sum of long columns, several times as fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from tessera_core.fleet.arrays import Bools, Codes, Floats, Ints
from tessera_schema.cards import Card
from tessera_schema.messages.hints import PRICED_PERCENTS

NO_VENDOR: Final = -1
"""Vendor number of a column without a card."""
UNPRICED: Final = 1 << 30
"""More sharers than a card has: none of them is missing in a price that is not there."""


class CardPrice(NamedTuple):
    """What one pod more costs the holders of a card."""

    prices: tuple[int, ...]
    """See `CardHint.prices`."""
    sharers: int
    """How many are counted in them."""
    expected_percent: int = 0
    """See `CardHint.expected_percent`."""


NO_PRICE: Final = CardPrice((0,) * len(PRICED_PERCENTS), UNPRICED)


USAGE: Final = ("cores_used", "exclusive", "memory_used", "sharers")
"""The columns that change as grants come and go; the others are facts from the inventory."""
LENT: Final = ("lends", "lent_memory", "lent_slots", "unused")
"""Those that change with what is lent, and are 0 as long as nothing ever was."""


class CardColumns:
    """Columns over cards."""

    __slots__ = (
        "blocked", "cores_total", "cores_used", "exclusive", "expected", "lends", "lent_memory",
        "lent_slots", "memory_physical", "memory_total", "memory_used", "mode", "model", "numa",
        "pressure", "priced", "prices", "sharers", "slots", "unused", "vendor",
    )  # fmt: skip

    def __init__(self, shape: tuple[int, ...]) -> None:
        """All columns empty: no card anywhere."""

        def ints() -> Ints:
            return np.zeros(shape, np.int64, "F")

        self.vendor = ints() + NO_VENDOR
        self.model = ints()
        """Number of the model's name."""
        self.mode = ints()
        """Number of the operating mode's name; 0 = none."""
        self.numa = ints()
        self.blocked: Codes = np.zeros(shape, np.uint8, "F")
        """0, or the Reason for which no pod may be placed here (agent, health, cordon, mode)."""
        self.memory_total = ints()
        """What can be granted."""
        self.memory_physical = ints()
        """What the card has, where more can be granted; else what can be granted."""
        self.memory_used = ints()
        self.cores_total = ints()
        """In the units of `tessera_core.fleet.cores`, as `cores_used`."""
        self.cores_used = ints()
        self.slots = ints()
        self.sharers = ints()
        """Slots in use."""
        self.exclusive = ints()
        """Sharers that hold the card as their own."""
        self.lent_memory = ints()
        """Memory that is lent; it is not in `memory_used` (`tessera_core.fleet.lent_memory`)."""
        self.lent_slots = ints()
        """Sharers that it is lent to; they are not in `sharers`."""
        self.lends: Bools = np.zeros(shape, np.bool_, "F")
        """Whether memory of the card is lent to best-effort pods."""
        self.unused = ints()
        """What its pods leave of `memory_used` and `lent_memory`, where it is lent."""
        self.pressure: Codes = np.zeros(shape, np.uint8, "F")
        """See `tessera_core.placement.scoring.pressure`; 0 = nothing is known against the card."""
        self.prices: Codes = np.zeros((*shape, len(PRICED_PERCENTS)), np.uint8, "F")
        """Last axis: see `CardHint.prices`; 0 where none is known."""
        self.priced: Ints = ints() + UNPRICED
        """Sharers that are counted in the card's prices; `UNPRICED` where it has none."""
        self.expected = ints()
        """GPU time that these are expected to want together, percent of the card."""

    def set_price(self, place: tuple[int, int], price: CardPrice) -> None:
        """Set what hints say of the price of the card in this row and column."""
        self.prices[place], self.priced[place] = price.prices, price.sharers
        self.expected[place] = price.expected_percent

    def at(self, row: int, columns: slice | Ints = slice(None)) -> CardColumns:
        """One node's columns; those of what is used are copies, the others may be shared."""
        part = object.__new__(_Part)
        part.of, part.place = self, (row, columns)
        for name in USAGE:
            used = getattr(self, name)[row, columns]
            setattr(part, name, used.copy() if isinstance(columns, slice) else used)
        return part

    def rows(self, rows: Ints) -> CardColumns:
        """Copies of these rows alone, column by column as those of the whole fleet."""
        part = object.__new__(CardColumns)
        for name in self.__slots__:
            setattr(part, name, np.asfortranarray(getattr(self, name)[rows]))
        return part

    def idle(self) -> CardColumns:
        """The same cards, none of them used; to be read."""
        idle = self.copy()
        for name in (*USAGE, *LENT):
            column = getattr(self, name)
            setattr(idle, name, np.broadcast_to(np.zeros((), column.dtype), column.shape))
        return idle

    def usage(self) -> Floats:
        """Per node the parts of slots, cores and memory in use, added up, all vendors together;
        a part of nothing is 0. Ten times this is HAMi's score of a node."""
        return (
            _part(self.sharers.sum(1), self.slots.sum(1))
            + _part(self.cores_used.sum(1), self.cores_total.sum(1))
            + _part(self.memory_used.sum(1), self.memory_total.sum(1))
        )

    def overgranted(self) -> int:
        """Cards on which more is held than they have."""
        memory, cores = self.memory_used > self.memory_total, self.cores_used > self.cores_total
        return int((memory | cores | (self.sharers > self.slots)).sum())

    def copy(self, *columns: str) -> CardColumns:
        """These columns copied, the others shared."""
        copy = object.__new__(CardColumns)
        for name in CardColumns.__slots__:
            column = getattr(self, name)
            setattr(copy, name, column.copy(order="K") if name in columns else column)
        return copy


class _Part(CardColumns):
    """Columns of one node; a fact is taken out of the fleet's when it is read first, since a fit
    reads a few of them."""

    __slots__ = ("of", "place")

    of: CardColumns
    place: tuple[int, slice | Ints]

    def __getattr__(self, name: str) -> Any:
        """A column that was not read yet."""
        if name not in CardColumns.__slots__:
            raise AttributeError(name)
        part = getattr(self.of, name)[self.place]
        if name in LENT:
            part = part.copy()  # what is used is this view's own
        setattr(self, name, part)
        return part


class NodeView:
    """One node's cards of one vendor while a pod is fitted to it.

    `facts[i]` describes the card whose state is in column i of `state`, which already counts
    what the pod's earlier containers took.
    """

    __slots__ = ("facts", "node", "state")

    def __init__(self, node: str, facts: tuple[Card, ...], state: CardColumns) -> None:
        """`state` is this view's own copy."""
        self.node = node
        self.facts = facts
        self.state = state

    def idle(self, card: int) -> bool:
        """True when nobody has a share of the card."""
        return not self.state.sharers[card]


@lru_cache(1024)
def columns_by_vendor(vendors: tuple[str, ...]) -> Mapping[str, Ints]:
    """Vendor -> its columns on a node whose cards are of these vendors: one object for all nodes
    that are alike, and not changed."""
    return {v: np.array([i for i, x in enumerate(vendors) if x == v]) for v in set(vendors)}


def at(column: Any, card: int) -> Any:
    """The card's value in a column, which may be one number for all cards."""
    return column[card] if isinstance(column, np.ndarray) else column


def each(column: Any, count: int) -> list[Any]:
    """The values of the first `count` cards in a column, which may be one number for all."""
    return column.tolist() if isinstance(column, np.ndarray) else [column] * count


def _part(used: Floats | Ints, total: Floats | Ints) -> Floats:
    return np.divide(used, total, out=np.zeros(len(used)), where=total > 0)
