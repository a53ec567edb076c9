"""What the free room of a card is worth when each size has a price: unbounded knapsack.

A card is a grid of cells, one axis per resource; a size takes so many cells along each. Several
vectors of prices are worked on at once, since one at a time numpy would mostly be called.
"""

from __future__ import annotations

import numpy as np

from tessera_core.fleet.arrays import Floats, Ints


class Knapsack:
    """The knapsack of one grid and one list of sizes."""

    def __init__(self, sizes: Ints, capacity: Ints) -> None:
        """`sizes` (sizes, axes) and `capacity` (axes,) in cells; every size takes at least one
        cell of the first axis and none takes more than there is."""
        self.sizes, self.capacity = sizes, capacity
        self.shape = tuple((capacity + 1).tolist())
        self._cells = int(np.prod(self.shape))
        self._row = self._cells // self.shape[0]
        at = np.indices(self.shape).reshape(len(capacity), -1)
        left = at[None] - sizes[:, :, None]
        flat = np.ravel_multi_index(tuple(np.moveaxis(left, 1, 0)), self.shape, mode="clip")
        self._source: Ints = np.where((left >= 0).all(1), flat, self._cells)
        """(sizes, cells): the cell that is left when a size is taken; one past the end if none."""

    def values(self, prices: Floats) -> tuple[Floats, Ints]:
        """For `prices` (problems, sizes): value of every cell, and the size to take there first,
        -1 where nothing is to be gained; both (problems, cells)."""
        problems = len(prices)
        value = np.zeros((problems, self._cells + 1))
        value[:, -1] = -np.inf
        taken = np.full((problems, self._cells), -1)
        for start in range(self._row, self._cells, self._row):
            row = slice(start, start + self._row)
            gains = value[:, self._source[:, row]] + prices[:, :, None]
            size = gains.argmax(1)
            best = np.take_along_axis(gains, size[:, None], 1)[:, 0]
            worth = best > 0
            value[:, row] = np.where(worth, best, 0)
            taken[:, row] = np.where(worth, size, -1)
        return value[:, :-1], taken

    def best(self, prices: Floats) -> tuple[Floats, Floats]:
        """Of the whole card: its value (problems,), and how often each size is taken for it
        (problems, sizes)."""
        value, taken = self.values(prices)
        problems = np.arange(len(prices))
        pattern = np.zeros_like(prices)
        cell = np.full(len(prices), self._cells - 1)
        while True:
            size = taken[problems, cell]
            going = np.flatnonzero(size >= 0)
            if not len(going):
                return value[:, -1], pattern
            pattern[going, size[going]] += 1
            cell[going] = self._source[size[going], cell[going]]
