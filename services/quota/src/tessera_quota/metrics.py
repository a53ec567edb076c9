"""The quota monitor's metrics: read when they are scraped, from the last evaluation.

`hami_resource_quota_used` and `hami_resource_quota_limit` have HAMi's names and labels, so that its
users' dashboards go on. Where several ResourceQuotas limit one resource, the lowest limit is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.throttle import ThrottlePhase
from tessera_quota.quota_objects import QuotaObjects
from tessera_runtime.metrics import CounterMetricFamily, GaugeMetricFamily, Metric, MetricsRegistry
from tessera_schema.cards import MIB
from tessera_schema.quotas import Limit, QuotaStatus

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
        yield from self._hami_families()
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

    def _hami_families(self) -> Iterable[Metric]:
        used = GaugeMetricFamily(
            "hami_resource_quota_used", "Used, in MiB or percent.",
            labels=("namespace", "quota_name", "limit"),
        )  # fmt: skip
        limits = GaugeMetricFamily(
            "hami_resource_quota_limit", "Allowed, in MiB or percent.",
            labels=("namespace", "quota_name"),
        )  # fmt: skip
        lowest: dict[tuple[str, str], tuple[float, float]] = {}
        for limit in (limit for each in self._objects.foreign.values() for limit in each):
            use = self._ledger.allowance(limit.namespace).used(limit)
            resource = limit.source.partition("(limits.")[2].rstrip(")")
            have, most = _amount(limit, use.memory_bytes, use.cores_percent, use.cards)
            before = lowest.get((limit.namespace, resource), (have, most))
            lowest[limit.namespace, resource] = have, min(most, before[1])
        for (namespace, resource), (have, most) in lowest.items():
            used.add_metric((namespace, resource, f"{most:g}"), have)
            limits.add_metric((namespace, resource), most)
        yield from (used, limits)


def _amount(limit: Limit, memory: int, cores: float, cards: int) -> tuple[float, float]:
    if limit.memory_bytes is not None:
        return memory // MIB, limit.memory_bytes // MIB
    if limit.cores_percent is not None:
        return cores, limit.cores_percent
    return cards, limit.cards or 0
