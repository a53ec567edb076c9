"""A filter call, with its span, its metrics and its event on the bus."""

from __future__ import annotations

from collections.abc import Callable

from tessera_core.scheduling.filter import Filter, FilterAnswer
from tessera_core.scheduling.simulation import ScaleUpSimulation, is_simulation
from tessera_runtime.metrics import Counter
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_runtime.tracing import tracing
from tessera_scheduler.cache.placement_orders import PlacementOrders
from tessera_scheduler.events import AllocationEvents, trace_of
from tessera_scheduler.placement_events import PlacementEvents
from tessera_schema.endpoints.extender import decode_args, decode_names, pod_bytes
from tessera_schema.kube import Pod


class FilterCalls:
    """Answers filter calls."""

    def __init__(
        self,
        *,
        filter_: Filter,
        orders: PlacementOrders,
        allocation_events: AllocationEvents,
        refusals: Counter,
        clock: MonotonicClock,
        simulation: ScaleUpSimulation,
        placement_events: PlacementEvents,
        answered: Callable[[FilterAnswer, float], None] | None = None,
    ) -> None:
        """`orders` learn of each pod before it is placed; `answered` is called with each answer
        and the time of the wall."""
        self._filter = filter_
        self._orders = orders
        self._allocation_events = allocation_events
        self._refusals = refusals
        self._clock = clock
        self._simulation = simulation
        self._placement_events = placement_events
        self._answered = answered
        self.traceparent = ""
        """Of the call that was answered last: it is over before the next one begins."""

    def answer(self, body: bytes) -> bytes:
        """The answer to a body of `/filter`. Raises msgspec.DecodeError for what is none."""
        self.traceparent = ""
        args = decode_args(body)
        if is_simulation(args):
            return self._simulation.answer(args)
        scores = self._placement_events.scores(args)
        parent = ""
        if args.pod is not None:
            parent = trace_of(args.pod.metadata.annotations)
            self._orders.observe(args.pod)
        with tracing.span("tessera.scheduler.filter", parent, pod=_name(args.pod)) as span:
            self.traceparent = span.traceparent
            answer = self._filter.answer(args, self._clock.time(), pod_bytes(body, args))
            span.set(verdict=str(answer.verdict), node=answer.node)
            if answer.reason is not None:
                self._refusals.labels(answer.reason.wire).inc()
                span.set(reason=answer.reason.wire)
            self._allocation_events.answered(answer, span.traceparent)
            if self._answered is not None:
                self._answered(answer, self._clock.time())
        if scores:
            self._placement_events.answered(answer, scores, len(decode_names(args.node_names)))
        return answer.body


def _name(pod: Pod | None) -> str:
    return "" if pod is None else pod.name
