"""One vendor's cards on one node through time, and the containers on them."""

from __future__ import annotations

from sys import intern
from typing import Final

from tessera_core.usage.container_rows import ContainerRows
from tessera_core.usage.crowding import work_of
from tessera_core.usage.smoothed import SmoothCard, SmoothingConstants
from tessera_core.usage.window_rows import MeasuredSpan, SpanFactors, WindowRows, span_factors
from tessera_schema.messages.device_reports import NodeUsage

_LONGEST_S: Final = 60.0
"""An interval that claims to be longer is not believed to be."""
_LEAST_SPAN_S: Final = 5.0
"""Averages that are less apart in time show no trend."""
_HOUR_S: Final = 3600.0

# numbers of a row: sums of means at two paces, the sums of what was measured, and a wait
_BUSY, _BUSY_SLOW, _TIME, _TIME_SLOW, _WEIGHT, _WEIGHT_SLOW, _CROWDED, _SEEN = range(8)
_WIDTH: Final = _SEEN + 1


class CardWindow:
    """Measurements of one vendor's agent on one node."""

    __slots__ = ("_began", "_cards", "_pace", "_reclaiming", "_uses", "at", "received_at", "vendor")

    def __init__(self, vendor: str, constants: SmoothingConstants) -> None:
        """Nothing was measured yet."""
        self.at = float("-inf")
        """Unix time of the newest measurement, by the node's clock."""
        self.received_at = float("-inf")
        """When it came, by the receiver's clock."""
        self.vendor = vendor
        self._began = 0.0
        self._pace = constants
        self._cards = WindowRows(_WIDTH, 1)
        self._uses = ContainerRows()
        self._reclaiming: frozenset[str] = frozenset()

    def take(self, usage: NodeUsage, now: float) -> None:
        """The next message, newer than the one before."""
        covered = min(usage.interval_s, _LONGEST_S)
        if self.at == float("-inf"):
            self._began, self.at = usage.at, usage.at - covered
        elapsed = usage.at - self.at
        span = MeasuredSpan(usage.at - self._began, elapsed, min(covered, elapsed))
        self.at, self.received_at = usage.at, now
        self._reclaiming = frozenset(load.card for load in usage.cards if load.reclaims)
        factors = span_factors(span, self._pace)
        self._uses.take(usage, span, factors, self._pace)
        self._take_cards(usage, span, factors)

    def _take_cards(self, usage: NodeUsage, span: MeasuredSpan, factors: SpanFactors) -> None:
        work = work_of(usage)
        ids = tuple(work)
        if ids != self._cards.texts:
            ids, pace = tuple(map(intern, ids)), self._pace
            paces = (pace.load_s, pace.slow_s) * 3
            self._cards.arrange(ids, span.at - span.elapsed, paces, pace.keep_s)
        fade, slow, gain, gain_slow = factors[:4]
        middle = span.at - span.covered / 2
        cells, at = self._cards.cells, 0
        for busy, crowded in work.values():
            cells[at + _BUSY] = cells[at + _BUSY] * fade + busy * gain
            cells[at + _BUSY_SLOW] = cells[at + _BUSY_SLOW] * slow + busy * gain_slow
            cells[at + _TIME] = cells[at + _TIME] * fade + middle * gain
            cells[at + _TIME_SLOW] = cells[at + _TIME_SLOW] * slow + middle * gain_slow
            cells[at + _WEIGHT] = cells[at + _WEIGHT] * fade + gain
            cells[at + _WEIGHT_SLOW] = cells[at + _WEIGHT_SLOW] * slow + gain_slow
            cells[at + _CROWDED] = factors.waits(cells[at + _CROWDED], crowded)
            cells[at + _SEEN] = span.at
            at += _WIDTH

    def cards(self) -> list[SmoothCard]:
        """What is known of the cards that the newest message had."""
        cells, on = self._cards.cells, self._uses.by_card()
        found = []
        for number, card in enumerate(self._cards.texts):
            row = cells[number * _WIDTH : (number + 1) * _WIDTH]
            measured, measured_slow = row[_WEIGHT] or 1.0, row[_WEIGHT_SLOW] or 1.0
            busy = row[_BUSY] / measured
            apart = row[_TIME] / measured - row[_TIME_SLOW] / measured_slow
            rise = busy - row[_BUSY_SLOW] / measured_slow
            slope = rise / apart * _HOUR_S if apart >= _LEAST_SPAN_S else 0.0
            found.append(
                SmoothCard(
                    vendor=self.vendor, card=card, busy_percent=busy,
                    crowded_percent=row[_CROWDED], trend_percent=min(max(slope, -100.0), 100.0),
                    confidence=row[_WEIGHT], reclaims=card in self._reclaiming,
                    containers=tuple(on.get(card, ())),
                )
            )  # fmt: skip
        return found
