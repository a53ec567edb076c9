"""The quota monitor's metrics: read when they are scraped, from the last evaluation.

ResourceQuotas are under HAMi's names (`tessera_quota.hami_metrics`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.throttle import ThrottlePhase
from tessera_quota.quota_objects import QuotaObjects
from tessera_runtime.metrics import CounterMetricFamily, GaugeMetricFamily, Metric, MetricsRegistry
from tessera_schema.quotas import QuotaStatus

_LABELS = ("namespace", "quota")


class QuotaMetrics:
    """The families of the quota monitor."""

    def __init__(
        self, registry: MetricsRegistry, objects: QuotaObjects, statuses: Mapping[str, QuotaStatus],
        ledger: Ledger, counts: Callable[[], Mapping[str, int]],
    ) -> None:  # fmt: skip
        """`counts` are further counters by name. Registers itself."""
        self._full = registry.full
        self._objects = objects
        self._statuses = statuses
        self._ledger = ledger
        self._counts = counts
        registry.collect(self.collect)

    def collect(self) -> Iterable[Metric]:
        """Every family, those without samples included."""
        yield from self._of_uses()
        yield from self._of_statuses()
        for name, count in self._counts().items():
            family = CounterMetricFamily(self._full(name), name.replace("_", " ").capitalize())
            family.add_metric((), count)
            yield family

    def _gauge(self, name: str, what: str, labels: Sequence[str] = _LABELS) -> GaugeMetricFamily:
        return GaugeMetricFamily(self._full(name), what, labels=labels)

    def _of_uses(self) -> Iterable[Metric]:
        memory = self._gauge("used_memory_bytes", "Device memory held.")
        cores = self._gauge("used_cores_percent", "Cores held, 100 = a card.")
        cards = self._gauge("used_cards", "Cards held, once for each pod that holds a part.")
        for quota in self._objects.known.values():
            if quota.limit is not None:
                labels = (quota.of.namespace, quota.of.name)
                used = self._ledger.used(quota.limit)
                memory.add_metric(labels, used.memory_bytes)
                cores.add_metric(labels, used.cores_percent)
                cards.add_metric(labels, used.cards)
        yield from (memory, cores, cards)

    def _of_statuses(self) -> Iterable[Metric]:
        phases = self._gauge("phase", "1 = it is in this phase.", (*_LABELS, "phase"))
        waits = self._gauge("waiting_pods", "Pods that ask for cards, without a node.")
        idle = self._gauge("idle_pods", "Pods whose cards rest.")
        granted = self._gauge("granted_card_hours", "Hours of cards held.")
        seen = self._gauge("seen_gpu_hours", "Hours of GPU time measured.")
        for key, status in self._statuses.items():
            labels = tuple(key.split("/", 1))
            for phase in ThrottlePhase:
                phases.add_metric((*labels, phase.value), float(status.phase == phase))
            waits.add_metric(labels, status.waiting.pods)
            idle.add_metric(labels, status.idle_pods)
            granted.add_metric(labels, status.hours.granted)
            seen.add_metric(labels, status.hours.seen)
        yield from (phases, waits, idle, granted, seen)
