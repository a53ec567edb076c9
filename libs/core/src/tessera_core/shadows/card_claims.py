"""Which cards those that wait in line could use, and which of these are claimed already.

There is one shadow for each card model and tree of queues: who waits first for a model has claimed
all cards of it that it could use, and who comes behind gets a shadow only of cards that are left.
So the first one for every model has a shadow, whichever is first in the whole line. One that takes
several models claims those of which its shadow has cards.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Bools
from tessera_core.fleet.card_mask import CardMask
from tessera_core.fleet.fleet import Fleet
from tessera_core.shadows.search import SeatsLaterSearch
from tessera_core.slices import Slices

MOST_SHADOWS: Final = 32
"""Gangs that have a shadow, whatever models and nodes they could use."""
FRESH_S: Final = 10.0
"""Seconds for which it is taken as it was found which cards members could use."""
MOST_KINDS: Final = 256
"""Kinds of gangs of which that is remembered, 40 KB each where there are 5,000 nodes of 8 cards."""


class UsableCards:
    """The cards that members could use, remembered by their kind."""

    def __init__(self, fleet: Fleet) -> None:
        """`fleet` is the ledger's."""
        self._fleet = fleet
        self._known: dict[Hashable, tuple[float, CardMask]] = {}

    def of(self, kind: Hashable, search: SeatsLaterSearch, now: float) -> Slices[CardMask]:
        """What the members of a search of this kind could use (`SeatsLaterSearch`). Equal cards are
        one object."""
        known = self._known.get(kind)
        if known is not None and self.is_fresh(*known, now):
            return known[1]
        mask = self._one((yield from search.usable()))
        self._known.pop(kind, None)
        self._known[kind] = now, mask
        if len(self._known) > MOST_KINDS:
            del self._known[next(iter(self._known))]
        return mask

    def is_fresh(self, at: float, mask: CardMask, now: float) -> bool:
        """Whether what was found at that time may still be taken as it is."""
        return now < at + FRESH_S and mask.layout == self._fleet.layout

    def _one(self, mask: CardMask) -> CardMask:
        """The same cards as one that is remembered, or as this."""
        known = (each for _, each in self._known.values())
        return next(filter(mask.equals, known), mask)


class CardClaims:
    """What has been claimed so far by those that come first in line. A tree is what names a tree of
    queues; None is that of all that are in no queue."""

    def __init__(self, fleet: Fleet) -> None:
        """Nothing is. `fleet` is the ledger's."""
        self._fleet = fleet
        self._claims: list[tuple[Hashable, CardMask, CardMask]] = []
        """Tree, what is claimed in it, and the cards of the shadow itself."""
        self._left: dict[tuple[Hashable, CardMask], Bools] = {}
        """What is left of what could be used; until another claim, or until nodes change."""
        self._met: dict[CardMask, Sequence[int]] = {}
        """The claims that are met; as long."""
        self._layout = fleet.layout

    def add(self, tree: Hashable, usable: CardMask, cards: Mapping[str, Iterable[str]]) -> None:
        """Claim the models of these cards, which are those of a shadow, by node and id."""
        fleet, mine = self._fleet, np.zeros(self._fleet.cards.vendor.shape, np.bool_)
        for place in fleet.places_of(cards):
            mine[place] = True
        models = fleet.cards.model
        claimed = mine | (usable.on(fleet) & np.isin(models, models[mine]))
        self._claims.append((tree, CardMask(fleet, claimed), CardMask(fleet, mine)))
        self._left, self._met = {}, {}

    def closed(self, tree: Hashable) -> Bools:
        """The cards, (nodes, cards), of which one of the tree that comes behind has no shadow:
        those that are claimed in it, and those of the shadows of other trees."""
        closed = np.zeros(self._fleet.cards.vendor.shape, np.bool_)
        for other, claimed, cards in self._claims:
            closed |= (claimed if other == tree else cards).on(self._fleet)
        return closed

    def leaves(self, tree: Hashable, usable: CardMask) -> bool:
        """Whether one that could use these cards may have a shadow of some of them."""
        return bool(self._left_of(tree, usable).any())

    def narrows(self, tree: Hashable, usable: CardMask) -> bool:
        """Whether it may not have one of all of them."""
        return not np.array_equal(self._left_of(tree, usable), usable.on(self._fleet))

    def met(self, usable: CardMask) -> Sequence[int]:
        """Of which claims the shadow has some of these cards, by their number."""
        self._forget_old()
        if usable not in self._met:
            cards = usable.on(self._fleet)
            self._met[usable] = [
                number for number, (_, _, mine) in enumerate(self._claims)
                if (mine.on(self._fleet) & cards).any()
            ]  # fmt: skip
        return self._met[usable]

    def take(self, tree: Hashable, cards: Mapping[str, Iterable[str]]) -> bool:
        """Whether some of these cards are claimed."""
        closed = self.closed(tree)
        return any(closed[place] for place in self._fleet.places_of(cards))

    def _left_of(self, tree: Hashable, usable: CardMask) -> Bools:
        self._forget_old()
        known = self._left.get((tree, usable))
        if known is None or known.shape != self._fleet.cards.vendor.shape:
            known = self._left[tree, usable] = usable.on(self._fleet) & ~self.closed(tree)
        return known

    def _forget_old(self) -> None:
        if self._layout != self._fleet.layout:
            self._left, self._met, self._layout = {}, {}, self._fleet.layout
