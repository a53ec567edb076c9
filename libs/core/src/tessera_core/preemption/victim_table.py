"""Rows of numbers about pods that may go, in one array; a row that is given up is used again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Bools, Floats

PRIORITY: Final = 0
"""The first column: the priority of a pod. That of a row that nobody uses is infinite, so that no
comparison finds it."""
_FIRST: Final = 1024
"""Rows at the beginning."""


class VictimTable:
    """A table that grows."""

    def __init__(self, width: int) -> None:
        """Without rows that are used."""
        self._rows: Floats = np.zeros((_FIRST, width), np.float64, "F")
        self._rows[:, PRIORITY] = np.inf
        self._free = list(range(_FIRST))

    def column(self, number: int) -> Floats:
        """One value of each row, used or not: for reading until the table changes."""
        column: Floats = self._rows[:, number]
        return column

    def below(self, priority: float) -> Bools:
        """The rows of pods of lower priority."""
        rows: Bools = self._rows[:, PRIORITY] < priority
        return rows

    def put(self, values: tuple[float, ...]) -> int:
        """Write a row, and say which."""
        if not self._free:
            size, width = self._rows.shape
            rows: Floats = np.zeros((2 * size, width), np.float64, "F")
            rows[:size], rows[size:, PRIORITY] = self._rows, np.inf
            self._rows = rows
            self._free = list(range(size, 2 * size))
        row = self._free.pop()
        self._rows[row] = values
        return row

    def drop(self, rows: Iterable[int]) -> None:
        """These are used no more."""
        rows = list(rows)
        self._rows[rows, PRIORITY] = np.inf
        self._free += rows
