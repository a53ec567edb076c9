"""Metrics of plans: read when they are scraped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tessera_rebalancer.plans.planner import RebalancePlanner
from tessera_runtime.metrics import CounterMetricFamily, GaugeMetricFamily, Metric, MetricsRegistry
from tessera_runtime.plans.plan_store import PlanStore
from tessera_schema.plans import PlanKind, PlanPhase


class PlanMetrics:
    """The families of plans."""

    def __init__(
        self, registry: MetricsRegistry, plans: PlanStore, planner: RebalancePlanner
    ) -> None:
        """Registers itself."""
        self._full = registry.full
        self._plans = plans
        self._planner = planner
        registry.collect(self.collect)

    def collect(self) -> Iterable[Metric]:
        """Every family, those without samples included."""
        counts = Counter((s.spec.kind, s.status.phase) for s in self._plans.known.values())
        there = GaugeMetricFamily(
            self._full("plans"), "RebalancePlans that there are.", labels=("kind", "phase")
        )
        for kind in PlanKind:
            for phase in PlanPhase:
                there.add_metric((kind, phase), counts[kind, phase])
        yield there
        yield self._made()
        yield self._seconds("expected", "their plans expect")
        yield self._seconds("gained", "were measured afterwards")
        paused = GaugeMetricFamily(
            self._full("plans_paused"), "1 while nothing is proposed as gains do not come."
        )
        paused.add_metric((), float(self._planner.paused is not None))
        yield paused
        failures = CounterMetricFamily(
            self._full("plan_round_failures"), "Rounds that the API server kept from being done."
        )
        failures.add_metric((), self._planner.failures)
        yield failures

    def _made(self) -> Metric:
        made = CounterMetricFamily(
            self._full("plans_proposed"), "Plans that were proposed.", labels=("kind",)
        )
        for kind in PlanKind:
            made.add_metric((kind,), self._planner.proposed[kind])
        return made

    def _seconds(self, what: str, text: str) -> Metric:
        """Of plans whose gain is known."""
        family = GaugeMetricFamily(
            self._full(f"plan_gain_{what}_card_seconds"), f"Card-seconds that {text}, of the plans "
            "that were measured and are kept.", labels=("kind",),
        )  # fmt: skip
        total: Counter[PlanKind] = Counter()
        for plan in self._plans.known.values():
            if plan.status.gained is not None:
                gained = plan.status.gained if what == "gained" else plan.spec.gain
                total[plan.spec.kind] += round(gained)
        for kind in PlanKind:
            family.add_metric((kind,), total[kind])
        return family
