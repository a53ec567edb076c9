"""Rows of numbers that come and go, by key: what was measured of containers, or of cards, in time.

Ways to remember a measurement:
- a *mean* weighs each moment by its age and counts only what was measured: it is the quotient of
  two sums that fade alike, so a gap lowers the weight of what is known and not its value;
- a *wait* rises quickly and falls slowly, with the next measurement also by the time of a gap: it
  is about now;
- a *peak* rises at once and falls slowly, and not by the time of a gap.

All numbers of a node's rows are in one array: a cluster has 100,000 rows in memory, ten or so a
node, and so few are counted sooner in a loop than by calls of numpy.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tessera_core.usage.smoothed import SmoothingConstants


class MeasuredSpan(NamedTuple):
    """What one measurement is about, in seconds."""

    at: float
    """Its end, since any beginning."""
    elapsed: float
    """Since the end of the one before."""
    covered: float
    """How much of that it measured."""


class SpanFactors(NamedTuple):
    """What one measurement does to what is remembered."""

    fade: float
    """What is left of sums at the pace of load, and"""
    fade_slow: float
    """at the pace with which load is compared."""
    gain: float
    """How much the measurement counts in a sum at the pace of load, and"""
    gain_slow: float
    """at the other pace."""
    rise: float
    """How much of a wait's difference counts where it rises, and"""
    fall: float
    """where it falls."""
    peak: float
    """What is left of a peak."""

    def waits(self, before: float, now: float) -> float:
        """A wait after the measurement."""
        more = now - before
        return before + more * (self.rise if more > 0 else self.fall)


def span_factors(span: MeasuredSpan, pace: SmoothingConstants) -> SpanFactors:
    """The factors of one measurement, which are those of all its rows."""
    _, elapsed, covered = span
    return SpanFactors(
        fade=math.exp(-elapsed / pace.load_s),
        fade_slow=math.exp(-elapsed / pace.slow_s),
        gain=-math.expm1(-covered / pace.load_s),
        gain_slow=-math.expm1(-covered / pace.slow_s),
        rise=-math.expm1(-covered / pace.rise_s),
        fall=-math.expm1(-elapsed / pace.fall_s),
        peak=math.exp(-covered / pace.peak_s),
    )


class WindowRows:
    """Rows by key. A key is one text or several; the texts of all keys are in one tuple, since keys
    of their own would take as much memory as the numbers."""

    __slots__ = ("_absent", "_texts_each", "cells", "texts", "width")

    def __init__(self, width: int, texts: int) -> None:
        """Each row has `width` numbers, the last of which is when it was measured last, and so many
        `texts` as its key."""
        self.texts: tuple[str, ...] = ()
        """The keys of the rows that the last measurement had, in its order."""
        self.cells = array("d")
        """These rows, one after another; behind them those of keys that are absent."""
        self.width = width
        self._texts_each = texts
        self._absent: tuple[str, ...] = ()

    def arrange(
        self, texts: tuple[str, ...], before: float, paces: Sequence[float], keep_s: float
    ) -> None:
        """Rows for the keys of these texts, each of which is there once. Rows of others stay for
        `keep_s`.

        `before` is when the last measurement was. The first numbers of a row are sums that fade
        with `paces`; a row that comes back has faded until then.
        """
        width, cells = self.width, self.cells
        parts = (cells[at : at + width] for at in range(0, len(cells), width))
        rows = {
            key: row
            for key, row in zip(self._keys((*self.texts, *self._absent)), parts, strict=True)
            if before - row[-1] <= keep_s
        }
        made = array("d")
        for key in self._keys(texts):
            row = rows.pop(key, None)
            if row is None:
                made.extend([0.0] * width)
                continue
            gap = before - row[-1]
            for number, pace in enumerate(paces if gap > 0 else ()):
                row[number] *= math.exp(-gap / pace)
            made.extend(row)
        for row in rows.values():
            made.extend(row)
        self.texts, self.cells = texts, made
        self._absent = tuple(text for key in rows for text in key)

    def _keys(self, texts: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
        return zip(*[iter(texts)] * self._texts_each, strict=True)
