"""Some cards of a fleet, whatever becomes of its nodes."""

from __future__ import annotations

import numpy as np

from tessera_core.fleet.arrays import Bools
from tessera_core.fleet.fleet import Fleet


class CardMask:
    """Two of them are equal where they are one object: it is a key as well."""

    def __init__(self, fleet: Fleet, cards: Bools) -> None:
        """`cards` are (nodes, cards), as the fleet has them now."""
        self.layout = fleet.layout
        self.cards = cards
        self._names = tuple(fleet.names)

    def on(self, fleet: Fleet) -> Bools:
        """The same cards, (nodes, cards), as the fleet has them now: to be read."""
        shape = fleet.cards.vendor.shape
        if self.layout == fleet.layout and self.cards.shape == shape:
            return self.cards
        moved = np.zeros(shape, np.bool_)
        before = [at for at, name in enumerate(self._names) if name and name in fleet.rows]
        after = [fleet.rows[self._names[at]] for at in before]
        columns = min(shape[1], self.cards.shape[1])
        moved[after, :columns] = self.cards[before, :columns]
        return moved

    def nodes(self) -> frozenset[str]:
        """The nodes of which some cards are among them."""
        return frozenset(self._names[row] for row in np.flatnonzero(self.cards.any(axis=1)))

    def equals(self, other: CardMask) -> bool:
        """Whether both are the same cards of the same nodes."""
        return self.layout == other.layout and np.array_equal(self.cards, other.cards)
