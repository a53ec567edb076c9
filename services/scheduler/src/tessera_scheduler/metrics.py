"""The scheduler's metrics, by name. What they count is explained where they are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_runtime.kube.timestamps import parse_time
from tessera_runtime.metrics import GaugeMetricFamily, Metric, MetricsRegistry
from tessera_runtime.report_doubts import DoubtedReports
from tessera_scheduler.alerts import AlertReason
from tessera_scheduler.events import RefusedPod


class SchedulerMetrics:
    """All metrics of the extender and the ledger."""

    def __init__(self) -> None:
        self.registry = MetricsRegistry("scheduler")
        r = self.registry
        self.calls = r.counter("extender_calls", "Extender calls by outcome", ("verb", "outcome"))
        self.call_seconds = r.histogram("extender_seconds", "In the handler", ("verb",))
        self.refusals = r.counter("refusals", "Pods refused by filter, by main reason", ("reason",))
        self.binds = r.counter("binds", "Bindings by what became of them", ("outcome",))
        self.bind_seconds = r.histogram("bind_seconds", "From the call to its outcome")
        self.alerts = r.counter("alarms", "Pods whose grants are not as they should be", ("wrong",))
        self.restored = r.counter("grants_restored", "Grants written again", ("outcome",))
        self.resizes = r.counter("resizes", "Live resizes by outcome", ("outcome",))
        self.undecodable = r.counter(
            "undecodable_objects", "Objects that cannot be read", ("kind",)
        )
        self.doubted = DoubtedReports(
            r.counter("news_disbelieved", "Reports of agents that do not count", ("reason",))
        )
        self.relists = r.counter("relists", "Lists after a start or a gap", ("kind",))
        self.expired = r.counter("reservations_expired", "Reservations that nobody used")
        self.wakes = r.counter("wakes", "Touches that make kube-scheduler look again", ("outcome",))
        self.leading = r.gauge("leading", "1 while this replica answers")
        self.fenced = r.gauge("fenced", "1 where the API server refuses grants of a former leader")
        self.audited = r.gauge("audit_timestamp_seconds", "When the books were last audited")
        self.silent_agents = r.gauge(
            "silent_agents", "Agents that do not renew their Lease: no pod is placed on their cards"
        )
        self.differing = r.gauge(
            "audit_cards_differing", "Cards on which the books and another differ", ("against",)
        )
        for wrong in AlertReason:
            self.alerts.labels(wrong)

    def watch(self, ledger: Ledger) -> None:
        """Publish what the ledger holds, computed when it is scraped."""

        def read() -> Iterable[Metric]:
            phases = dict.fromkeys(AllocationPhase, 0)
            for entry in ledger.entries():
                phases[entry.phase] += 1
            held = GaugeMetricFamily(
                self.registry.full("grants"), "Grants in the books by phase", labels=["phase"]
            )
            for phase, count in phases.items():
                if phase is not AllocationPhase.RELEASED:
                    held.add_metric([phase], count)
            yield held
            yield GaugeMetricFamily(
                self.registry.full("nodes"), "Nodes known", value=len(ledger.fleet.rows)
            )
            cards, full = ledger.fleet.cards, self.registry.full
            yield GaugeMetricFamily(
                full("lent_memory_bytes"), "Memory lent to best-effort pods",
                value=int(cards.lent_memory.sum()),
            )  # fmt: skip
            yield GaugeMetricFamily(
                full("unused_memory_bytes"), "Memory that pods leave, and that may be lent",
                value=int(cards.unused.sum()),
            )  # fmt: skip
            over = ledger.fleet.cards.overgranted()
            yield GaugeMetricFamily(
                self.registry.full("overgranted_cards"),
                "Cards on which the books hold more than they have", value=over,
            )  # fmt: skip

        self.registry.collect(read)

    def watch_waiting(
        self, refused: Callable[[], Collection[RefusedPod]], now: Callable[[], float]
    ) -> None:
        """Publish which pods wait, computed when it is scraped."""
        full = self.registry.full

        def read() -> Iterable[Metric]:
            pods = GaugeMetricFamily(
                full("waiting_pods"), "Pods that filter refused, by the reason it gave last",
                labels=["namespace", "reason"],
            )  # fmt: skip
            longest = GaugeMetricFamily(
                full("longest_wait_seconds"), "Since the oldest of these pods was created",
                labels=["namespace"],
            )  # fmt: skip
            counts = Counter((pod.namespace, pod.reason.wire) for pod in refused())
            for labels, count in counts.items():
                pods.add_metric(labels, count)
            for namespace, created in _oldest(refused()).items():
                longest.add_metric([namespace], max(now() - created, 0))
            yield from (pods, longest)

        self.registry.collect(read)


def _oldest(pods: Iterable[RefusedPod]) -> dict[str, float]:
    """Namespace -> when its oldest pod was created, Unix seconds. All times are written alike, so
    that their texts have their order."""
    oldest: dict[str, str] = {}
    for pod in pods:
        if pod.created:
            oldest[pod.namespace] = min(oldest.get(pod.namespace, pod.created), pod.created)
    times = {namespace: parse_time(text) for namespace, text in oldest.items()}
    return {namespace: at for namespace, at in times.items() if at is not None}
