"""One vendor's cards on one node through time, and the containers on them."""

from __future__ import annotations

from sys import intern
from typing import Final, NamedTuple

import numpy as np

from tessera_core.usage.crowding import work_of
from tessera_core.usage.smoothed import Key, SmoothCard, SmoothContainer, SmoothingConstants
from tessera_core.usage.window_columns import (
    MeasuredSpan,
    TimeConstants,
    WindowColumns,
    WindowSample,
)
from tessera_schema.messages.device_reports import NodeUsage

_LONGEST_S: Final = 60.0
"""An interval that claims to be longer is not believed to be."""
_LEAST_SPAN_S: Final = 5.0
"""Averages that are less apart in time show no trend."""
_HOUR_S: Final = 3600.0
_MOST_PEAKS: Final = (100.0, float(1 << 52))
"""GPU time in percent, and bytes: no card has more, and a double still counts single ones."""

# columns of means
_BUSY, _BUSY_SLOW, _TIME, _TIME_SLOW = range(4)


class _Newest(NamedTuple):
    """What the newest message says of one container on one card, and no mean is made of."""

    namespace: str
    pod: str
    cores_limit_percent: float
    memory_bytes: int
    memory_day_peak_bytes: int


class CardWindow:
    """Measurements of one vendor's agent on one node."""

    def __init__(self, vendor: str, constants: SmoothingConstants) -> None:
        """Nothing was measured yet."""
        self.at = float("-inf")
        """Unix time of the newest measurement, by the node's clock."""
        self.received_at = float("-inf")
        """When it came, by the receiver's clock."""
        self._vendor = vendor
        self._began = 0.0
        load, slow = constants.load_s, constants.slow_s
        rest = (constants.rise_s, constants.fall_s, constants.peak_s, constants.keep_s)
        self._cards: WindowColumns[str] = WindowColumns(
            TimeConstants((load, slow, load, slow), *rest), 1, 0
        )
        self._uses: WindowColumns[Key] = WindowColumns(TimeConstants((load, load), *rest), 1, 2)
        self._newest: tuple[_Newest, ...] = ()
        """In the order of the columns' keys."""

    def take(self, usage: NodeUsage, now: float) -> None:
        """The next message, newer than the one before."""
        covered = min(usage.interval_s, _LONGEST_S)
        if self.at == float("-inf"):
            self._began, self.at = usage.at, usage.at - covered
        elapsed = usage.at - self.at
        span = MeasuredSpan(usage.at - self._began, elapsed, min(covered, elapsed))
        self.at, self.received_at = usage.at, now
        self._take_uses(usage, span)
        self._take_cards(usage, span)

    def _take_uses(self, usage: NodeUsage, span: MeasuredSpan) -> None:
        uses = {
            (one.uid, one.container, use.card): (one, use)
            for one in usage.containers
            for use in one.cards
        }
        keys = tuple(uses)
        numbers = np.array(
            [
                (
                    use.cores_percent, use.throttled_percent,
                    max(use.cores_percent, use.cores_peak_percent),
                    float(max(use.memory_bytes, use.memory_peak_bytes)),
                )
                for _, use in uses.values()
            ],
            np.float64,
        ).reshape(len(keys), 4)  # fmt: skip
        self._newest = tuple(
            _Newest(
                intern(one.namespace), one.pod, use.cores_limit_percent, use.memory_bytes,
                use.memory_day_peak_bytes,
            )
            for one, use in uses.values()
        )  # fmt: skip
        averages = np.clip(numbers[:, :2], 0, 100)
        peaks = np.clip(numbers[:, 2:], 0, _MOST_PEAKS)
        self._uses.take(WindowSample(keys, averages, averages[:, 1:], peaks), span)

    def _take_cards(self, usage: NodeUsage, span: MeasuredSpan) -> None:
        work = work_of(usage)
        ids = tuple(work)
        load = np.fromiter((each.busy_percent for each in work.values()), np.float64, len(ids))
        crowded = np.fromiter(
            (each.crowded_percent for each in work.values()), np.float64, len(ids)
        )
        middle = np.full(len(ids), span.at - span.covered / 2)
        averages = np.stack([load, load, middle, middle], axis=1)
        self._cards.take(
            WindowSample(ids, averages, crowded[:, None], np.zeros((len(ids), 0))), span
        )

    def cards(self) -> list[SmoothCard]:
        """What is known of the cards that the newest message had."""
        columns = self._cards
        averages = columns.averages()
        rise = averages[:, _BUSY] - averages[:, _BUSY_SLOW]
        apart = averages[:, _TIME] - averages[:, _TIME_SLOW]
        trend = np.divide(rise, apart, out=np.zeros_like(rise), where=apart >= _LEAST_SPAN_S)
        rows = zip(
            columns.keys,
            averages[:, _BUSY].tolist(),
            columns.waits[columns.present, 0].tolist(),
            np.clip(trend * _HOUR_S, -100, 100).tolist(),
            columns.weights[columns.present, _BUSY].tolist(),
            strict=True,
        )
        on = self._containers()
        return [
            SmoothCard(
                vendor=self._vendor, card=card, busy_percent=busy, crowded_percent=crowded,
                trend_percent=slope, confidence=confidence, containers=tuple(on.get(card, ())),
            )
            for card, busy, crowded, slope, confidence in rows
        ]  # fmt: skip

    def _containers(self) -> dict[str, list[SmoothContainer]]:
        columns = self._uses
        rows = zip(
            columns.keys,
            self._newest,
            columns.averages().tolist(),
            columns.waits[columns.present, 0].tolist(),
            columns.peaks[columns.present].tolist(),
            columns.weights[columns.present, 0].tolist(),
            strict=True,
        )
        on: dict[str, list[SmoothContainer]] = {}
        for (uid, container, card), newest, (cores, held), waits, (peak, memory), sure in rows:
            on.setdefault(card, []).append(
                SmoothContainer(
                    uid=uid, namespace=newest.namespace, pod=newest.pod, container=container,
                    card=card, cores_percent=cores, cores_peak_percent=peak,
                    cores_limit_percent=newest.cores_limit_percent, waiting_percent=waits,
                    held_percent=held, memory_bytes=max(newest.memory_bytes, 0),
                    memory_peak_bytes=int(memory),
                    memory_day_peak_bytes=max(newest.memory_day_peak_bytes, 0), confidence=sure,
                )
            )  # fmt: skip
        return on
