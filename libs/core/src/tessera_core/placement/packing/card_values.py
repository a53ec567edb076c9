"""What the free room of a partly used card is worth, in cards: a table over the cells of a grid.

The prices of one demand are degenerate: which of many equal solutions is found is chance. So the
value is the mean over demands that differ a little.
"""

from __future__ import annotations

from math import gcd
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Floats, Ints
from tessera_core.placement.packing.cutting_stock import prices
from tessera_core.placement.packing.knapsack import Knapsack

CELLS: Final = 100
"""Most cells along an axis. Fewer where all sizes are multiples of something coarser."""
DEMANDS: Final = 20
SPREAD: Final = 0.15
"""Standard deviation of the logarithm of a demand."""
OPEN: Final = 0.05
"""Cards that a partly used card costs, whatever its value: it stays for shares alone."""
SIZES: Final = 64
"""Sizes that count, those asked for most. Half as many where a card has two amounts: each then
costs a hundred times as much to learn from."""


class ValueTable(Struct, frozen=True, eq=False):
    """The value of one kind of card, by what is free of each axis."""

    value: Floats
    """One axis per resource. A card that can take no more shares has 0, an idle one 1, others
    their value less `OPEN`."""
    cells: Ints
    """(axes,): a card's total is so many cells; what is free is rounded down to whole ones."""

    @property
    def top(self) -> Ints:
        """(axes,): the last cell of each axis."""
        return np.array(self.value.shape) - 1


def table(
    totals: Ints, sizes: Ints, counts: Floats, amounts: int, rng: np.random.Generator
) -> ValueTable:
    """Of a card with `totals` (axes,), when shares of `sizes` (sizes, axes) are asked for
    `counts` times. Without any, the value is that of halves, quarters and eighths."""
    if not len(sizes):
        sizes, counts = -(-totals // np.array([[2], [4], [8]])), np.array([1.0, 2.0, 4.0])
    each, cells = _grid(totals, sizes, amounts)
    each, where = np.unique(each, axis=0, return_inverse=True)
    demand: Floats = np.bincount(where.ravel(), counts, len(each)).astype(float)
    most = np.argsort(-demand, kind="stable")[: SIZES // amounts]
    each, demand = each[most], demand[most]
    knapsack = Knapsack(each, cells[: each.shape[1]])
    noise = np.exp(SPREAD * rng.standard_normal((DEMANDS, len(each))))
    value, _ = knapsack.values(prices(knapsack, demand * noise))
    return _closed(value.mean(0).reshape(knapsack.shape), cells, each, amounts)


def _grid(totals: Ints, sizes: Ints, amounts: int) -> tuple[Ints, Ints]:
    """Sizes and totals in cells: exact on the coarsest grid that is, else rounded up."""
    each, cells = np.zeros_like(sizes), totals.copy()
    for axis in range(amounts):
        column = sizes[:, axis].tolist()
        total = int(totals[axis])
        step = gcd(total, *column)
        cells[axis] = total // step
        each[:, axis] = np.array(column) // step
        if cells[axis] > CELLS:
            cells[axis] = CELLS
            each[:, axis] = -(-np.array(column) * CELLS // total)
    each[:, 0] = np.maximum(each[:, 0], 1)
    each[:, amounts:] = sizes[:, amounts:]
    if amounts == len(totals) or not _slots_bind(each, cells, amounts):
        return each[:, :amounts], cells
    return each, cells


def _slots_bind(each: Ints, cells: Ints, amounts: int) -> bool:
    """Whether a card can run out of slots before it runs out of anything else."""
    fit = cells[:amounts] // np.maximum(each[:, :amounts], 1)
    most = np.where(each[:, :amounts] > 0, fit, cells[amounts:].max()).min(1)
    return bool((most > cells[amounts:].min()).any())


def _closed(value: Floats, cells: Ints, each: Ints, amounts: int) -> ValueTable:
    """The table with its edges: idle, nothing left, and slots that only must not be 0."""
    for _ in range(len(cells) - value.ndim):
        value = np.repeat(value[..., None], 2, -1)
    value = value - OPEN
    for axis in range(len(cells)):
        if axis in (0, *range(amounts, len(cells))) or each[:, axis].all():
            value[(slice(None),) * axis + (0,)] = 0
    value[(-1,) * value.ndim] = 1
    return ValueTable(value, cells)
