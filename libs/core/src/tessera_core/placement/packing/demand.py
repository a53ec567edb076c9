"""Kinds of cards and shapes of pods, in numbers: all that values and potential know of them.

Resources of a card are axes, in whole numbers of the card's own units. The first `amounts` axes
are amounts of which a share takes some (memory, cores); others only bound how many shares there
are (slots). Kind 0 is no card at all: an empty column, or a card where nothing may be placed.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools, Floats, Ints


class IdleNodes(Struct, frozen=True, eq=False):
    """What idle nodes offer to pods."""

    kind: Ints
    """(nodes, cards): each card's kind."""
    cpu: Floats
    """(nodes,): processor and memory in all, in the units of `DemandShape`."""
    memory: Floats
    known: Bools
    """(nodes,): whether they are known."""


class CardKinds(Struct, frozen=True, eq=False):
    """The kinds of cards of a cluster, by number."""

    totals: Ints
    """(kinds, axes): what an idle card has; the row of kind 0 is 1, so that it divides."""
    cards: Ints
    """(kinds,): how many cards pods may be placed on."""
    vendor: Ints
    """(kinds,): number of the vendor; shapes of one vendor never use another's cards."""
    amounts: int
    nodes: IdleNodes | None = None
    """The nodes that have them; None = nothing is known of their hosts."""

    def __len__(self) -> int:
        """Kind 0 included."""
        return len(self.totals)


class DemandShape(Struct, frozen=True, eq=False):
    """What pods of one shape ask, of each kind of card and of the host."""

    need: Ints
    """(kinds, axes), per card; 0 on kinds that are not allowed."""
    allowed: Bools
    """(kinds,): the kinds that an idle card of may serve; never kind 0."""
    alone: Bools
    """(kinds,): the card must be idle and becomes the pod's own."""
    count: int
    """Cards; 0 = none at all."""
    vendor: int = 0
    cpu: float = 0
    """Processor and memory of the host: in any unit, but the same everywhere."""
    memory: float = 0


class Demand(Struct, frozen=True, eq=False):
    """What was asked: shapes with how often, and sums over the pods that asked for cards."""

    asks: tuple[tuple[DemandShape, float], ...] = ()
    cpu: float = 0
    """0 = not known."""
    memory: float = 0
    held_cpu: float = 0
    """Processor of nodes with cards that is held now, by all their pods."""
    cards_in_use: float = 0
    """Cards that are in use now; parts of cards count as parts."""


def cards_requested(ask: DemandShape, kinds: CardKinds, parts: Floats) -> float:
    """How many cards a pod takes, the mean over the cards that it may use; parts of cards by
    their `parts` (kinds, axes): the weight of each axis."""
    fraction = (ask.need[:, : kinds.amounts] / kinds.totals[:, : kinds.amounts] * parts).sum(1)
    each = np.where(ask.alone, 1.0, fraction)[ask.allowed]
    cards = kinds.cards[ask.allowed]
    return ask.count * float((each * cards).sum() / cards.sum()) if cards.sum() else 0.0
