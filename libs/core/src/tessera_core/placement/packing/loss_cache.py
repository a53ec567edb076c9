"""Losses kept per shape and node: only nodes that changed since a shape was last asked are asked
again.

The code that changes a node says so (`changed`); a shape catches up when it is asked for. The least
recently asked shapes are forgotten beyond `SHAPES`: each takes 16 bytes per node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Codes, Floats, Ints

SHAPES: Final = 512

LossFunction = Callable[[Ints | None], tuple[Floats, Ints | Codes]]
"""Rows (None = all) -> for each its steps, and what the caller wants to know of its cards."""


class CachedLosses(Struct):
    """What is known of one shape about all nodes."""

    steps: Floats
    """(nodes,): the least is the best; infinite where it does not fit."""
    card: Ints | Codes
    """(nodes,): the best card's column; meaningful for shapes of one card. Or (nodes, cards): see
    `PackingState.priced_steps`."""
    known: int
    """How far into the log of changes it has read."""


class LossCache:
    """Answers per shape, for a fixed list of nodes and one forecast."""

    def __init__(self, nodes: int, shapes: int = SHAPES) -> None:
        """Nothing is known yet."""
        self._nodes, self._shapes = nodes, shapes
        self._cached: dict[Hashable, CachedLosses] = {}
        self._log: list[int] = []
        self._forgotten = 0
        """Entries cut off the log's front; a shape that had not read them starts afresh."""

    def changed(self, row: int) -> None:
        """What the node has is no longer what it was."""
        self._log.append(row)
        if len(self._log) > 4 * self._nodes + 64:
            cut = len(self._log) // 2
            del self._log[:cut]
            self._forgotten += cut

    def losses_for(self, shape: Hashable, compute: LossFunction) -> CachedLosses:
        """What holds now for the shape. `judge` must be the same function of the nodes each
        time."""
        cached = self._cached.pop(shape, None)
        now = self._forgotten + len(self._log)
        stale: set[int] = set()
        if cached is not None and cached.known >= self._forgotten:
            stale = set(self._log[cached.known - self._forgotten :])
        if cached is None or cached.known < self._forgotten or 2 * len(stale) > self._nodes:
            cached = CachedLosses(*compute(None), now)
        elif stale:
            rows = np.fromiter(stale, np.int64, len(stale))
            cached.steps[rows], cached.card[rows] = compute(rows)
        cached.known = now
        self._cached[shape] = cached
        if len(self._cached) > self._shapes:
            del self._cached[next(iter(self._cached))]
        return cached
