"""Kinds of cards and shapes of pods of a real fleet, as the rest of the package numbers them.

Axes of a card: memory in bytes, cores in the units of `tessera_core.fleet.cores`, slots. Two cards
are of one kind when vendor, model, mode, memory, cores and slots are equal.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tessera_core.fleet.arrays import Ints
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement import predicates
from tessera_core.placement.packing.demand import CardKinds, Demand, DemandShape
from tessera_core.placement.packing.demand_history import History
from tessera_schema.requests import Request

AMOUNTS: Final = 2

MOST_KINDS: Final = 512
"""Kinds of cards that are distinguished. What is known of shapes is worked out for each."""


class CardKind(NamedTuple):
    """What makes cards equal; names by their numbers in the fleet."""

    vendor: int
    model: int
    mode: int
    memory: int
    cores: int
    slots: int


class CardCatalogue:
    """The kinds of cards met so far, by number from 1 on."""

    def __init__(self) -> None:
        """Empty."""
        self.kinds: list[CardKind] = []
        self._numbers: dict[CardKind, int] = {}

    def __len__(self) -> int:
        """Kind 0, no card, included."""
        return len(self.kinds) + 1

    def numbers(self, cards: CardColumns) -> Ints:
        """Each card's kind, for columns of any shape; 0 where none may be used, and beyond
        `MOST_KINDS`: such cards are given last."""
        columns = (
            cards.vendor, cards.model, cards.mode, cards.memory_total, cards.cores_total,
            cards.slots,
        )  # fmt: skip
        usable = (cards.vendor >= 0) & (cards.blocked == 0) & (cards.memory_total > 0)
        found = np.zeros(cards.vendor.shape, np.int64)
        values = zip(*(c[usable].tolist() for c in columns), strict=True)
        found[usable] = [self._number(CardKind(*v)) for v in values]
        return found

    def totals(self) -> Ints:
        """(kinds, axes)."""
        return np.array([[1, 1, 1], *([k.memory, max(k.cores, 1), k.slots] for k in self.kinds)])

    def describe(self, of_card: Ints) -> CardKinds:
        """The kinds, where `of_card` is the kind of each card of the fleet."""
        return CardKinds(
            totals=self.totals(),
            cards=np.bincount(of_card.ravel(), minlength=len(self)) * (np.arange(len(self)) > 0),
            vendor=np.array([-1, *(k.vendor for k in self.kinds)]),
            amounts=AMOUNTS,
        )

    def demand_shape(
        self, request: Request, fleet: Fleet, *, cpu: float = 0, memory: float = 0
    ) -> DemandShape:  # fmt: skip
        """The request on an idle card of each kind; `cpu` and `memory` of the host in thousandths
        and bytes."""
        cards = self._idle()
        need = predicates.amounts(request, cards, fleet.models)
        refused = predicates.predicates(
            request, need, cards, models=fleet.models, modes=fleet.modes
        )
        known = fleet.vendors.known(request.vendor)
        vendor = -2 if known is None else known
        mine = cards.vendor == vendor
        each = np.zeros((len(self), 3), np.int64)
        each[:, 0], each[:, 1] = need.memory, need.cores
        each[:, 2] = need.slots
        alone = np.zeros(len(self), np.bool_) | need.alone | request.policy.idle_cards_only
        return DemandShape(
            need=each * mine[:, None],
            allowed=predicates.passed(refused, mine),
            alone=alone,
            count=request.count,
            vendor=vendor,
            cpu=cpu,
            memory=memory,
        )

    def past(self, history: History, fleet: Fleet) -> Demand:
        """What the history says of these kinds; empty where it says too little."""
        cpu, memory = history.host
        asks = tuple(
            (self.demand_shape(wish.request, fleet, cpu=wish.cpu, memory=wish.memory), n)
            for wish, n in history.demands.items()
        )
        return Demand(asks, cpu, memory)

    def _number(self, kind: CardKind) -> int:
        if kind not in self._numbers:
            if len(self.kinds) >= MOST_KINDS:
                return 0
            self.kinds.append(kind)
            self._numbers[kind] = len(self.kinds)
        return self._numbers[kind]

    def _idle(self) -> CardColumns:
        """One idle card of each kind, in columns."""
        cards = CardColumns((len(self),))
        for name, column in zip(_COLUMNS, zip(*self.kinds, strict=True), strict=False):
            getattr(cards, name)[1:] = column
        cards.memory_physical[1:] = cards.memory_total[1:]
        return cards


_COLUMNS: Final = ("vendor", "model", "mode", "memory_total", "cores_total", "slots")
