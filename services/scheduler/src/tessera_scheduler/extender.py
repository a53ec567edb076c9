"""What kube-scheduler asks of its extender, from bytes to bytes.

Only the replica that leads answers; the others say 503. A body that makes no sense is answered 400
with what is wrong. A pod that is none of ours passes: extenders are asked about every pod of a
profile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter

import msgspec
from aiohttp import web
from msgspec import Struct

from tessera_core.admission import Admission, admit
from tessera_core.filtering import Filter
from tessera_core.ledger import Ledger
from tessera_core.preempting import useful
from tessera_core.registry import Registry
from tessera_core.several import TOP_SCORE, scores
from tessera_runtime import telemetry
from tessera_scheduler.binder import Binder
from tessera_scheduler.measures import Measures
from tessera_scheduler.news import News, trace_of
from tessera_scheduler.steady import Steady
from tessera_schema.extender import (
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


class Parts(Struct, frozen=True, kw_only=True):
    """What the extender answers from."""

    registry: Registry
    ledger: Ledger
    filter: Filter
    binder: Binder
    news: News
    measures: Measures
    steady: Steady
    problem: Callable[[], str]
    """Why this replica does not answer; empty when it does."""
    look: Callable[[Pod], None]
    """To be shown each pod before it is placed."""


class Extender:
    """Answers. All of it raises NotLeading, and msgspec.DecodeError for bodies that are none."""

    def __init__(self, parts: Parts) -> None:
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
        with telemetry.span("tessera.scheduler.filter", parent, pod=_name(args.pod)) as span:
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
        """`/preempt`: the candidates where evicting would make room for the pod's cards."""
        parts = self._leading()
        args = decode_preemption_args(body)
        victims = args.node_name_to_meta_victims or {}
        request = self._request(args.pod)
        if request is not None:
            uids = {node: [p.uid for p in v.pods or ()] for node, v in victims.items()}
            kept = useful(parts.ledger, request, uids)
            victims = {node: v for node, v in victims.items() if node in kept}
        return encode_result(ExtenderPreemptionResult(victims))

    def _leading(self) -> Parts:
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
        return scores(self._parts.ledger, request, names)

    def _request(self, pod: Pod | None) -> PodRequest | None:
        admission = admit(self._parts.registry, pod) if pod is not None else None
        asks = isinstance(admission, Admission) and bool(admission.request.containers)
        return admission.request if asks and isinstance(admission, Admission) else None


def routes(extender: Extender, measures: Measures) -> list[web.RouteDef]:
    """The extender's verbs over HTTP."""

    async def filter_(body: bytes) -> bytes:
        return extender.filter(body)

    async def prioritize(body: bytes) -> bytes:
        return extender.prioritize(body)

    async def preempt(body: bytes) -> bytes:
        return extender.preempt(body)

    verbs = {
        "filter": filter_, "prioritize": prioritize, "preempt": preempt, "bind": extender.bind,
    }  # fmt: skip

    async def answer(request: web.Request) -> web.Response:
        verb = request.path[1:]
        began = perf_counter()
        outcome = "failed"
        try:
            body = await request.read()
            made = await verbs[verb](body)
            outcome = "answered"
            return web.Response(body=made, content_type="application/json")
        except msgspec.DecodeError as e:
            outcome = "malformed"
            return web.Response(status=400, text=f"body of /{verb}: {e}\n")
        except NotLeading as e:
            outcome = "not leading"
            return web.Response(status=503, text=f"{e}\n")
        finally:
            measures.calls.labels(verb, outcome).inc()
            measures.call_seconds.labels(verb).observe(perf_counter() - began)

    return [web.post(f"/{verb}", answer) for verb in verbs]


def _name(pod: Pod | None) -> str:
    return "" if pod is None else pod.name
