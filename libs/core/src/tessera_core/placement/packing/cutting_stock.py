"""What each size is worth in cards: the prices of the cutting stock problem.

Least cards so that every size is cut as often as it is asked for; a pattern is what is cut from
one card. Gilmore and Gomory (1961): the revised simplex method, where the pattern to enter is found
by a knapsack under the current prices, until none is worth more than the card it takes. All
demands are solved in step.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Floats, Ints
from tessera_core.placement.packing.knapsack import Knapsack

_EPS: Final = 1e-9
_ROUNDS_PER_SIZE: Final = 40
"""Each solve takes about three rounds per size; a degenerate one is cut off, see `prices`."""


def prices(knapsack: Knapsack, demands: Floats) -> Floats:
    """Cards that one more of each size costs, for `demands` (problems, sizes), all above 0.

    No pattern is ever worth more than one card, not even where the method is cut off early: then
    the prices are only lower than they should be.
    """
    problems, sizes = demands.shape
    fits = (knapsack.capacity // np.maximum(knapsack.sizes, 1)).astype(float)
    most = np.where(knapsack.sizes > 0, fits, np.inf).min(1)
    state = _Simplex(
        inverse=np.broadcast_to(np.diag(1 / most), (problems, sizes, sizes)).copy(),
        cost=np.ones((problems, sizes)),
        amounts=demands / most,
    )
    going = np.arange(problems)
    for _ in range(_ROUNDS_PER_SIZE * sizes):
        column, cost, gain = _entering(knapsack, state.prices(going))
        going, column, cost = going[gain], column[gain], cost[gain]
        if not len(going):
            break
        state.enter(going, column, cost)
    found = np.maximum(state.prices(np.arange(problems)), 0)
    worth, _ = knapsack.best(found)
    bounded: Floats = found / np.maximum(worth, 1)[:, None]
    return bounded


def _entering(knapsack: Knapsack, now: Floats) -> tuple[Floats, Floats, Ints]:
    """The column that improves each problem most, its cost, and which problems have one."""
    worth, column = knapsack.best(np.maximum(now, 0))
    cost = np.ones(len(now))
    lowest = now.argmin(1)
    at = np.arange(len(now))
    surplus = np.flatnonzero(now[at, lowest] < -_EPS)  # more was cut than asked: allow it
    column[surplus] = 0
    column[surplus, lowest[surplus]] = -1
    cost[surplus] = 0
    worth[surplus] = np.inf
    return column, cost, np.flatnonzero(worth > 1 + _EPS)


class _Simplex:
    """The bases of all problems."""

    def __init__(self, inverse: Floats, cost: Floats, amounts: Floats) -> None:
        self._inverse = inverse
        """(problems, sizes, sizes), of the matrix whose columns are the patterns in use."""
        self._cost = cost
        """(problems, sizes): 1 for a pattern, 0 for a surplus."""
        self._amounts = amounts
        """(problems, sizes): cards cut by each pattern."""

    def prices(self, problems: Ints) -> Floats:
        """(problems, sizes)."""
        found: Floats = np.einsum("pi,pij->pj", self._cost[problems], self._inverse[problems])
        return found

    def enter(self, problems: Ints, column: Floats, cost: Floats) -> None:
        """One pivot in each of these problems."""
        inverse, amounts = self._inverse[problems], self._amounts[problems]
        along = np.einsum("pij,pj->pi", inverse, column)
        ratio = np.divide(amounts, along, out=np.full_like(along, np.inf), where=along > _EPS)
        leaving, at = ratio.argmin(1), np.arange(len(problems))
        step = ratio[at, leaving]
        amounts = np.maximum(amounts - step[:, None] * along, 0)
        amounts[at, leaving] = step
        pivot = inverse[at, leaving] / along[at, leaving][:, None]
        inverse = inverse - along[:, :, None] * pivot[:, None, :]
        inverse[at, leaving] = pivot
        self._inverse[problems], self._amounts[problems] = inverse, amounts
        self._cost[problems, leaving] = cost
