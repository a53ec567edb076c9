"""Rows that come and go, each with means, waits and peaks over time; columns of numpy.

Three ways to remember a measurement:
- a *mean* weighs each moment by its age and counts only what was measured: numerator and
  denominator fade alike, so a gap lowers the weight of what is known and not its value;
- a *wait* rises quickly and falls slowly, with the next measurement also by the time of a gap: it
  is about now;
- a *peak* rises at once and falls slowly, and not by the time of a gap.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from tessera_core.fleet.arrays import Floats, Ints

K = TypeVar("K", bound=Hashable)


class TimeConstants(NamedTuple):
    """Time constants, in seconds."""

    averages: tuple[float, ...]
    rise: float
    fall: float
    peak: float
    keep: float
    """Rows that were absent for longer are dropped."""


class MeasuredSpan(NamedTuple):
    """What one measurement is about, in seconds."""

    at: float
    """Its end, since any beginning."""
    elapsed: float
    """Since the end of the one before."""
    covered: float
    """How much of that it measured."""


class WindowSample(NamedTuple, Generic[K]):
    """One measurement of some rows: (rows, columns)."""

    keys: tuple[K, ...]
    """Each once."""
    averages: Floats
    waits: Floats
    peaks: Floats


class WindowColumns(Generic[K]):
    """Rows by key."""

    def __init__(self, pace: TimeConstants, waits: int, peaks: int) -> None:
        """A column of means for each of the pace's, and numbers of columns of the others."""
        self.rows: dict[K, int] = {}
        self.present: Ints = np.zeros(0, np.int64)
        """The rows that the last measurement had, in its order."""
        self.waits: Floats = np.zeros((0, waits))
        self.peaks: Floats = np.zeros((0, peaks))
        self.sums: Floats = np.zeros((0, len(pace.averages)))
        self.weights: Floats = np.zeros((0, len(pace.averages)))
        """How much of the time that a mean looks back on was measured, 0 to 1."""
        self._pace = pace
        self._taus: Floats = np.array(pace.averages)
        self._seen: Floats = np.zeros(0)
        self.keys: tuple[K, ...] = ()
        """Of the rows that are present."""

    def take(self, sample: WindowSample[K], span: MeasuredSpan) -> None:
        """The next measurement."""
        if sample.keys != self.keys:
            self._arrange(sample.keys, span)
        rows, pace = self.present, self._pace
        fade = np.exp(-span.elapsed / self._taus)
        self.sums *= fade
        self.weights *= fade
        gain = -np.expm1(-span.covered / self._taus)
        self.sums[rows] += sample.averages * gain
        self.weights[rows] += gain
        rise = -math.expm1(-span.covered / pace.rise)
        fall = -math.expm1(-span.elapsed / pace.fall)
        more = sample.waits - self.waits[rows]
        self.waits[rows] += more * np.where(more > 0, rise, fall)
        left = (self.peaks[rows] - sample.peaks) * math.exp(-span.covered / pace.peak)
        self.peaks[rows] = sample.peaks + np.maximum(left, 0)
        self._seen[rows] = span.at

    def averages(self) -> Floats:
        """Of the rows that are present, in their order; 0 where nothing is known."""
        sums, weights = self.sums[self.present], self.weights[self.present]
        averages: Floats = np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0)
        return averages

    def _arrange(self, keys: tuple[K, ...], span: MeasuredSpan) -> None:
        """Rows for these keys; the others stay for a while."""
        kept = [
            key for key, row in self.rows.items()
            if span.at - self._seen[row] <= self._pace.keep
        ]  # fmt: skip
        if len(kept) != len(self.rows):
            self._pick([self.rows[key] for key in kept])
            self.rows = {key: row for row, key in enumerate(kept)}
        new = [key for key in keys if key not in self.rows]
        if new:
            self._widen(len(new))
            self.rows |= {key: len(kept) + n for n, key in enumerate(new)}
        self.present = np.array([self.rows[key] for key in keys], np.int64)
        self.keys = keys

    def _pick(self, rows: Sequence[int]) -> None:
        self.waits, self.peaks = self.waits[rows], self.peaks[rows]
        self.sums, self.weights = self.sums[rows], self.weights[rows]
        self._seen = self._seen[rows]

    def _widen(self, more: int) -> None:
        def wider(column: Floats) -> Floats:
            return np.concatenate([column, np.zeros((more, *column.shape[1:]))])

        self.waits, self.peaks = wider(self.waits), wider(self.peaks)
        self.sums, self.weights = wider(self.sums), wider(self.weights)
        self._seen = wider(self._seen)
