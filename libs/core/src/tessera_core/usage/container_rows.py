"""The containers of one node on one vendor's cards, through time."""

from __future__ import annotations

from array import array
from sys import intern
from typing import Final

from tessera_core.usage.crowding import clamped
from tessera_core.usage.smoothed import SmoothContainer, SmoothingConstants
from tessera_core.usage.window_rows import MeasuredSpan, SpanFactors, WindowRows
from tessera_schema.messages.device_reports import CardUse, ContainerUse, NodeUsage

# numbers of a row: sums of means, the sum of what was measured, a wait, peaks, and as it was last
_CORES, _HELD, _WEIGHT, _WAIT, _PEAK, _MEMORY_PEAK, _LIMIT, _MEMORY, _DAY_PEAK, _SEEN = range(10)
_WIDTH: Final = _SEEN + 1
_SUMS: Final = _WEIGHT + 1
_TEXTS: Final = 3
"""Of a key: the pod's uid, the container and the card."""
_MOST_BYTES: Final = float(1 << 52)
"""No card has more, and a double still counts single bytes."""


class ContainerRows:
    """A row for each container on each of its cards."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        """Nothing was measured yet."""
        self._rows = WindowRows(_WIDTH, _TEXTS)

    def take(
        self, usage: NodeUsage, span: MeasuredSpan, factors: SpanFactors, pace: SmoothingConstants
    ) -> None:
        """The next message."""
        uses = [(one, use) for one in usage.containers for use in one.cards]
        texts = [text for one, use in uses for text in (one.uid, one.container, use.card)]
        if tuple(texts) != self._rows.texts:
            uses = self._arrange(uses, span, pace)
        cells, at = self._rows.cells, 0
        for _, use in uses:
            _count(cells, at, use, factors)
            cells[at + _SEEN] = span.at
            at += _WIDTH

    def _arrange(
        self,
        uses: list[tuple[ContainerUse, CardUse]],
        span: MeasuredSpan,
        pace: SmoothingConstants,
    ) -> list[tuple[ContainerUse, CardUse]]:
        """Texts are those that grants have too. Of uses with one key the last counts."""
        once = {(one.uid, one.container, use.card): (one, use) for one, use in uses}
        texts = tuple(intern(text) for key in once for text in key)
        self._rows.arrange(texts, span.at - span.elapsed, (pace.load_s,) * _SUMS, pace.keep_s)
        return list(once.values())

    def by_card(self) -> dict[str, list[SmoothContainer]]:
        """Card -> what is known of the containers that the newest message had."""
        on: dict[str, list[SmoothContainer]] = {}
        cells, at, texts = self._rows.cells, 0, iter(self._rows.texts)
        for uid, container, card in zip(texts, texts, texts, strict=True):
            row = cells[at : at + _WIDTH]
            cores, held, weight, wait, peak, memory_peak, limit, memory, day_peak, _ = row
            measured = weight or 1.0
            one = SmoothContainer(
                key=(uid, container, card), cores_percent=cores / measured,
                cores_peak_percent=peak, cores_limit_percent=limit, waiting_percent=wait,
                held_percent=held / measured, memory_bytes=int(memory),
                memory_peak_bytes=int(memory_peak), memory_day_peak_bytes=int(day_peak),
                confidence=weight,
            )  # fmt: skip
            on.setdefault(card, []).append(one)
            at += _WIDTH
        return on


def _count(cells: array[float], at: int, use: CardUse, factors: SpanFactors) -> None:
    """One row, which begins `at`."""
    fade, gain = factors.fade, factors.gain
    throttled = clamped(use.throttled_percent)
    cells[at + _CORES] = cells[at + _CORES] * fade + clamped(use.cores_percent) * gain
    cells[at + _HELD] = cells[at + _HELD] * fade + throttled * gain
    cells[at + _WEIGHT] = cells[at + _WEIGHT] * fade + gain
    cells[at + _WAIT] = factors.waits(cells[at + _WAIT], throttled)
    peak = clamped(max(use.cores_percent, use.cores_peak_percent))
    cells[at + _PEAK] = max(peak, peak + (cells[at + _PEAK] - peak) * factors.peak)
    memory = min(max(use.memory_bytes, use.memory_peak_bytes, 0), _MOST_BYTES)
    before = cells[at + _MEMORY_PEAK]
    cells[at + _MEMORY_PEAK] = max(memory, memory + (before - memory) * factors.peak)
    cells[at + _LIMIT] = use.cores_limit_percent
    cells[at + _MEMORY] = max(use.memory_bytes, 0)
    cells[at + _DAY_PEAK] = max(use.memory_day_peak_bytes, 0)
