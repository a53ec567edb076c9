"""The scheduler's metrics, by name. What they count is explained where they are counted."""

from __future__ import annotations

from collections.abc import Iterable

from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_runtime.metrics import GaugeMetricFamily, Metric, MetricsRegistry
from tessera_runtime.report_doubts import DoubtedReports
from tessera_scheduler.alerts import AlertReason


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
            over = ledger.fleet.overgranted()
            yield GaugeMetricFamily(
                self.registry.full("overgranted_cards"),
                "Cards on which the books hold more than they have", value=over,
            )  # fmt: skip

        self.registry.collect(read)
