"""Whole nodes kept back for pods of many cards (policy B), for clusters short of processor.

Balancing cards against processor breaks up whole nodes; so as many cards as such pods are likely to
ask for yet are kept on the last nodes of the order. Nobody is refused by it: others come to these
nodes last, and pods of many cards go elsewhere when none of them has room.
"""

from __future__ import annotations

import numpy as np

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.placement.packing.forecast import MANY


class WholeNodeReserve:
    """The nodes kept back."""

    def __init__(self, nodes: Ints, cards: int, many: float) -> None:
        """Of `nodes`, which have `cards` cards each, the last ones are kept. `many` is the part
        of all cards asked for that pods of `MANY` cards or more ask for."""
        self._nodes, self._cards, self._many = nodes, cards, many
        self.rows: list[int] | None = None
        """Kept rows, the first one kept first; None = not begun."""

    def settle(self, idle: Ints, left: float) -> None:
        """After any change: `idle` (nodes of the fleet,) are idle cards per row, `left` the cards
        of the cluster that nobody has. Nodes are given up as they are needed less, the last
        one kept first; none is added."""
        target = self._many * left
        if self.rows is None:
            wanted = int(np.ceil(max(target, 0) / self._cards))
            self.rows = self._nodes[::-1][:wanted].tolist()
        held = int(idle[self.rows].sum()) if self.rows else 0
        while self.rows and held - self._cards >= target:
            held -= int(idle[self.rows.pop()])

    def columns(self, count: int, idle: Ints) -> list[Floats]:
        """To be put before other columns when a pod asks `count` cards; the least is the best."""
        kept: Bools = np.zeros(len(idle), np.bool_)
        kept[self.rows or []] = True
        if count < MANY:
            return [kept.astype(float)]
        return [(~kept).astype(float), np.where(kept, idle, 0).astype(float)]


def whole_nodes(cards: Ints, kind: Ints, size: int) -> Ints:
    """Rows of the most common kind of node with `size` cards, in order. `kind` (nodes,) says
    kinds of nodes apart."""
    rows = np.flatnonzero(cards == size)
    if not len(rows):
        return rows
    kinds, count = np.unique(kind[rows], return_counts=True)
    found: Ints = rows[kind[rows] == kinds[count.argmax()]]
    return found
