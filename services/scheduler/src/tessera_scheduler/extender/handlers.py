"""The calls of kube-scheduler to its extender, from bytes to bytes.

Only the replica that leads answers; the others say 503. A body that makes no sense is answered 400
with what is wrong. A pod that asks for no cards passes: extenders are called for every pod of a
profile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final

import msgspec

from tessera_core.scheduling.preemption import PreemptionCheck
from tessera_core.scheduling.prioritize import Prioritizer
from tessera_runtime.http.fast_path import Answer, Reply, text_reply
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_runtime.tracing.durations import observe
from tessera_scheduler.binding.binder import Binder
from tessera_scheduler.extender.filter import FilterCalls
from tessera_scheduler.gangs.scheduling import GangScheduling
from tessera_scheduler.leadership.leader import Leadership
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_scheduler.placement_events import PlacementEvents
from tessera_schema.endpoints.extender import (
    ExtenderBindingResult,
    ExtenderPreemptionResult,
    decode_args,
    decode_binding_args,
    decode_preemption_args,
    encode_result,
)


class NotLeading(Exception):
    """This replica does not answer now; the message says why."""


REFUSED: Final = (msgspec.DecodeError, NotLeading)
"""Errors that the caller has to deal with, and that are no failure of the extender."""


class Extender:
    """Answers. All of it raises NotLeading, and msgspec.DecodeError for bodies that are none."""

    def __init__(
        self,
        *,
        leadership: Leadership,
        filter_calls: FilterCalls,
        prioritizer: Prioritizer,
        preemption: PreemptionCheck,
        binder: Binder,
        placement_events: PlacementEvents,
        clock: MonotonicClock,
        gangs: GangScheduling | None = None,
    ) -> None:
        """All are shared with the rest of the scheduler; with `gangs` bind calls of members wait
        for each other."""
        self._leadership = leadership
        self._filter_calls = filter_calls
        self._prioritizer = prioritizer
        self._preemption = preemption
        self._binder = binder
        self._placement_events = placement_events
        self._clock = clock
        self._gangs = gangs

    def filter(self, body: bytes) -> bytes:
        """Answer `/filter`."""
        self._check_leading()
        return self._filter_calls.answer(body)

    @property
    def filter_traceparent(self) -> str:
        """Of the call of `filter` that was answered last."""
        return self._filter_calls.traceparent

    async def bind(self, body: bytes) -> bytes:
        """Answer `/bind`."""
        self._check_leading()
        args = decode_binding_args(body)
        error = await self._gangs.arrive(args.pod_uid) if self._gangs is not None else ""
        if not error:
            error = await self._binder.bind(args, self._clock.time())
            if error and self._gangs is not None:
                self._gangs.leave(args.pod_uid)
        if error:
            self._placement_events.not_bound(args, error)
        return encode_result(ExtenderBindingResult(error=error))

    def prioritize(self, body: bytes) -> bytes:
        """Answer `/prioritize`: by the pod's own policy, 0 to 10; the node that it is reserved on,
        alone where it is."""
        self._check_leading()
        return self._prioritizer.answer(decode_args(body))

    def preempt(self, body: bytes) -> bytes:
        """Answer `/preempt`: the candidates where evicting would make room for the pod's cards, and
        that are not reserved for another pod."""
        self._check_leading()
        args = decode_preemption_args(body)
        victims = args.node_name_to_meta_victims or {}
        uids = {node: [p.uid for p in v.pods or ()] for node, v in victims.items()}
        useful = self._preemption.nodes(args.pod, uids, self._clock.time())
        return encode_result(
            ExtenderPreemptionResult({node: v for node, v in victims.items() if node in useful})
        )

    def _check_leading(self) -> None:
        problem = self._leadership.problem()
        if problem:
            raise NotLeading(problem)


def answers(extender: Extender, metrics: SchedulerMetrics) -> dict[str, Answer]:
    """The extender's verbs over HTTP, by path."""
    filtering = _Calls("filter", metrics, lambda: extender.filter_traceparent)
    return {
        "/filter": _at_once(filtering, extender.filter),
        "/prioritize": _at_once(_Calls("prioritize", metrics), extender.prioritize),
        "/preempt": _at_once(_Calls("preempt", metrics), extender.preempt),
        "/bind": _later(_Calls("bind", metrics), extender.bind),
    }


def _at_once(calls: _Calls, act: Callable[[bytes], bytes]) -> Answer:
    def answer(body: bytes) -> Reply:
        began = perf_counter()
        try:
            made = act(body)
        except REFUSED as e:
            return calls.refused(e, began)
        except BaseException:
            calls.failed(began)
            raise
        return calls.answered(made, began)

    return answer


def _later(calls: _Calls, act: Callable[[bytes], Awaitable[bytes]]) -> Answer:
    async def answer(body: bytes) -> Reply:
        began = perf_counter()
        try:
            made = await act(body)
        except REFUSED as e:
            return calls.refused(e, began)
        except BaseException:
            calls.failed(began)
            raise
        return calls.answered(made, began)

    return answer


class _Calls:
    """Counts the calls of one verb."""

    def __init__(
        self, verb: str, metrics: SchedulerMetrics, trace: Callable[[], str] = str
    ) -> None:
        """`trace` gives the traceparent of the call that was answered just now."""
        self._verb = verb
        self._trace = trace
        self._outcomes = {
            outcome: metrics.calls.labels(verb, outcome)
            for outcome in ("answered", "malformed", "not leading", "failed")
        }
        self._seconds = metrics.call_seconds.labels(verb)

    def answered(self, made: bytes, began: float) -> Reply:
        self._count("answered", began, self._trace())
        return Reply(made)

    def refused(self, why: msgspec.DecodeError | NotLeading, began: float) -> Reply:
        if isinstance(why, NotLeading):
            self._count("not leading", began)
            return text_reply(f"{why}\n", 503)
        self._count("malformed", began)
        return text_reply(f"body of /{self._verb}: {why}\n", 400)

    def failed(self, began: float) -> None:
        self._count("failed", began)

    def _count(self, outcome: str, began: float, traceparent: str = "") -> None:
        self._outcomes[outcome].inc()
        observe(self._seconds, perf_counter() - began, traceparent)
