"""Metrics of queues."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tessera_core.gang_scheduling.view import QueueView
from tessera_core.gangs.queues import QueueDimension
from tessera_runtime.metrics import MetricsRegistry

MOST: Final = 200
"""Queues that are shown; of more, those that use and wait for most."""
_QUEUE: Final = ("group", "queue")
_AMOUNT: Final = (*_QUEUE, "vendor", "resource")


class QueueMetrics:
    """What is counted of queues. All are gone on a replica that does not lead."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._used = registry.gauge(
            "queue_used", "What pods of the queue and of those below it have of cards", _AMOUNT
        )
        self._guarantee = registry.gauge(
            "queue_guarantee", "What the queue has and does not lend", _AMOUNT
        )
        self._deserved = registry.gauge(
            "queue_deserved", "What the queue has and lends while it is idle", _AMOUNT
        )
        self._cap = registry.gauge("queue_cap", "The most that the queue may use", _AMOUNT)
        self._share = registry.gauge(
            "queue_share", "Part of the cluster that the queue uses beyond what it deserves", _QUEUE
        )
        self._lost = registry.gauge(
            "queue_weight_lost", "Part of its weight that what the queue has used takes from it",
            _QUEUE,
        )  # fmt: skip
        self._waiting_gangs = registry.gauge(
            "queue_waiting_gangs", "Gangs that wait in the queue", _QUEUE
        )
        self._waiting_pods = registry.gauge(
            "queue_waiting_pods", "Pods that wait in the queue, of gangs and of none", _QUEUE
        )
        self._longest = registry.gauge(
            "queue_longest_wait_seconds", "Of what waits in the queue", _QUEUE
        )
        self._left_out = registry.gauge(
            "queues_left_out", f"Queues beyond the {MOST} that are shown"
        )
        self._gauges = (
            self._used, self._guarantee, self._deserved, self._cap, self._share,
            self._lost, self._waiting_gangs, self._waiting_pods, self._longest,
        )  # fmt: skip

    def show(self, queues: Sequence[QueueView], now: float) -> None:
        """Show these queues and no others."""
        for gauge in self._gauges:
            gauge.clear()
        self._left_out.set(max(len(queues) - MOST, 0))
        for view in sorted(queues, key=_importance)[:MOST]:
            labels = (view.key.group, view.key.name)
            self._share.labels(*labels).set(view.share.beyond)
            self._lost.labels(*labels).set(view.share.lost)
            pods = sum(each.id.startswith("pod/") for each in view.waiting)
            self._waiting_gangs.labels(*labels).set(len(view.waiting) - pods)
            self._waiting_pods.labels(*labels).set(sum(each.pods for each in view.waiting))
            since = min((each.waits_since for each in view.waiting), default=now)
            self._longest.labels(*labels).set(max(now - since, 0))
            for dimension in _of_cards((*view.cap, *view.deserved, *view.guarantee, *view.used)):
                of = (*labels, dimension.vendor, dimension.what)
                self._used.labels(*of).set(view.used.get(dimension, 0))
                self._guarantee.labels(*of).set(view.guarantee.get(dimension, 0))
                self._deserved.labels(*of).set(view.deserved.get(dimension, 0))
                if dimension in view.cap:
                    self._cap.labels(*of).set(view.cap[dimension])


def _of_cards(named: Iterable[QueueDimension]) -> list[QueueDimension]:
    return sorted({dimension for dimension in named if dimension.vendor})


def _importance(view: QueueView) -> tuple[object, ...]:
    used = sum(view.used.get(each, 0) for each in _of_cards(view.used) if each.what == "cards")
    return -used - sum(each.pods for each in view.waiting), view.key
