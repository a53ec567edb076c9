"""What kube-scheduler asks of its extender, from bytes to bytes.

Only the replica that leads answers; the others say 503. A body that makes no sense is answered 400
with what is wrong. A pod that is none of ours passes: extenders are asked about every pod of a
profile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from time import perf_counter
from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.filter import Filter
from tessera_core.scheduling.preemption import nodes_made_feasible
from tessera_core.scheduling.prioritize import TOP_SCORE, node_scores
from tessera_runtime.http.fast_path import Answer, Reply, text_reply
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_runtime.tracing import tracing
from tessera_scheduler.binding.binder import Binder
from tessera_scheduler.events import AllocationEvents, trace_of
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.endpoints.extender import (
    ExtenderArgs,
    ExtenderBindingResult,
    ExtenderPreemptionResult,
    HostPriority,
    decode_args,
    decode_binding_args,
    decode_names,
    decode_preemption_args,
    encode_result,
)
from tessera_schema.kube import Pod
from tessera_schema.requests import PodRequest


class NotLeading(Exception):
    """This replica does not answer now; the message says why."""


REFUSED: Final = (msgspec.DecodeError, NotLeading)
"""What is the caller's to deal with, and no failure."""


class ExtenderDependencies(Struct, frozen=True, kw_only=True):
    """What the extender answers from."""

    registry: DialectRegistry
    ledger: Ledger
    placer: Placer
    filter: Filter
    binder: Binder
    news: AllocationEvents
    measures: SchedulerMetrics
    steady: MonotonicClock
    problem: Callable[[], str]
    """Why this replica does not answer; empty when it does."""
    look: Callable[[Pod], None]
    """To be shown each pod before it is placed."""


class Extender:
    """Answers. All of it raises NotLeading, and msgspec.DecodeError for bodies that are none."""

    def __init__(self, parts: ExtenderDependencies) -> None:
        """The parts are shared with the rest of the scheduler."""
        self._parts = parts

    def filter(self, body: bytes) -> bytes:
        """`/filter`."""
        parts = self._leading()
        args = decode_args(body)
        parent = ""
        if args.pod is not None:
            parent = trace_of(args.pod.metadata.annotations)
            parts.look(args.pod)
        with tracing.span("tessera.scheduler.filter", parent, pod=_name(args.pod)) as span:
            answer = parts.filter.answer(args, parts.steady.time())
            span.set(verdict=str(answer.verdict), node=answer.node)
            if answer.reason is not None:
                parts.measures.refusals.labels(answer.reason.wire).inc()
                span.set(reason=answer.reason.wire)
            parts.news.answered(answer, span.traceparent)
        return answer.body

    async def bind(self, body: bytes) -> bytes:
        """`/bind`."""
        parts = self._leading()
        return encode_result(
            ExtenderBindingResult(error=await parts.binder.bind(decode_binding_args(body)))
        )

    def prioritize(self, body: bytes) -> bytes:
        """`/prioritize`: by the pod's own policy, 0 to 10; the node that it is reserved on, alone
        where it is."""
        self._leading()
        args = decode_args(body)
        names = decode_names(args.node_names)
        scored = self._scored(args, names)
        return encode_result([HostPriority(name, scored.get(name, 0)) for name in names])

    def preempt(self, body: bytes) -> bytes:
        """`/preempt`: the candidates where evicting would make room for the pod's cards, and that
        are not kept for another pod."""
        parts = self._leading()
        args = decode_preemption_args(body)
        victims = args.node_name_to_meta_victims or {}
        request = self._request(args.pod)
        if args.pod is not None and request is not None:
            uids = {node: [p.uid for p in v.pods or ()] for node, v in victims.items()}
            priority, now = args.pod.spec.priority or 0, parts.steady.time()
            closed = parts.filter.reserved.closed_to(request, priority, now)
            kept = nodes_made_feasible(parts.ledger, request, uids) - closed.keys()
            victims = {node: v for node, v in victims.items() if node in kept}
        return encode_result(ExtenderPreemptionResult(victims))

    def _leading(self) -> ExtenderDependencies:
        problem = self._parts.problem()
        if problem:
            raise NotLeading(problem)
        return self._parts

    def _scored(self, args: ExtenderArgs, names: Iterable[str]) -> dict[str, int]:
        request = self._request(args.pod)
        if request is None:
            return {}
        entry = self._parts.ledger.entry(request.uid)
        if entry is not None:
            return {entry.grant.node: TOP_SCORE}
        return node_scores(self._parts.placer, request, names)

    def _request(self, pod: Pod | None) -> PodRequest | None:
        if pod is None:
            return None
        allowed = self._parts.ledger.allowed_in(pod.metadata.namespace)
        admission = admit(self._parts.registry, pod, allowed=allowed)
        asks = isinstance(admission, AdmittedPod) and bool(admission.request.containers)
        return admission.request if asks and isinstance(admission, AdmittedPod) else None


def answers(extender: Extender, measures: SchedulerMetrics) -> dict[str, Answer]:
    """The extender's verbs over HTTP, by path."""
    at_once = {
        "filter": extender.filter, "prioritize": extender.prioritize, "preempt": extender.preempt,
    }  # fmt: skip
    return {
        **{f"/{verb}": _at_once(_Calls(verb, measures), act) for verb, act in at_once.items()},
        "/bind": _later(_Calls("bind", measures), extender.bind),
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

    def __init__(self, verb: str, measures: SchedulerMetrics) -> None:
        self._verb = verb
        self._outcomes = {
            outcome: measures.calls.labels(verb, outcome)
            for outcome in ("answered", "malformed", "not leading", "failed")
        }
        self._seconds = measures.call_seconds.labels(verb)

    def answered(self, made: bytes, began: float) -> Reply:
        self._count("answered", began)
        return Reply(made)

    def refused(self, why: msgspec.DecodeError | NotLeading, began: float) -> Reply:
        if isinstance(why, NotLeading):
            self._count("not leading", began)
            return text_reply(f"{why}\n", 503)
        self._count("malformed", began)
        return text_reply(f"body of /{self._verb}: {why}\n", 400)

    def failed(self, began: float) -> None:
        self._count("failed", began)

    def _count(self, outcome: str, began: float) -> None:
        self._outcomes[outcome].inc()
        self._seconds.observe(perf_counter() - began)


def _name(pod: Pod | None) -> str:
    return "" if pod is None else pod.name
