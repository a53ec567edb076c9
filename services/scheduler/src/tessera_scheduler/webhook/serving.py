"""The webhook's HTTP side: bodies in and out, spans, metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from msgspec import DecodeError, Struct

from tessera_core.dialect import Rejected
from tessera_core.quota import Allowance
from tessera_runtime import logs, telemetry
from tessera_runtime.metrics import Registry as Metrics
from tessera_scheduler.webhook.answers import refused
from tessera_scheduler.webhook.judging import mutate, validate
from tessera_scheduler.webhook.namespaces import Namespaces
from tessera_scheduler.webhook.rules import Rules, Setting
from tessera_schema.keys import TRACE_KEY
from tessera_schema.kube import ObjectMeta
from tessera_schema.review import (
    NotAReview,
    ReviewAnswer,
    ReviewRequest,
    decode_review,
    encode_review,
)
from tessera_schema.wire import decoder

Judge = Callable[[Rules, ReviewRequest, Setting], ReviewAnswer]

KINDS: Final = ("Pod", "Binding")
_log = logs.named("tessera.scheduler.webhook")


class _Object(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_object = decoder(_Object)


class Webhook:
    """Answers reviews."""

    def __init__(
        self,
        rules: Rules,
        namespaces: Namespaces,
        allowance: Callable[[str], Allowance],
        metrics: Metrics,
    ) -> None:
        """`allowance` gives what a namespace may use, for early warnings."""
        self._rules = rules
        self._namespaces = namespaces
        self._allowance = allowance
        self._answers = metrics.counter(
            "admissions_total", "Answers of the webhook", ("phase", "outcome")
        )
        self._seconds = metrics.histogram(
            "admission_seconds", "Time that the webhook took for an answer", ("phase",)
        )

    def routes(self) -> list[web.RouteDef]:
        """`/mutate` and `/validate`."""

        def route(phase: str, judge: Judge) -> Callable[[web.Request], Awaitable[web.Response]]:
            async def handle(request: web.Request) -> web.Response:
                return await self._handle(request, phase, judge)

            return handle

        return [
            web.post("/mutate", route("admit", mutate)),
            web.post("/validate", route("validate", validate)),
        ]

    async def _handle(self, request: web.Request, phase: str, judge: Judge) -> web.Response:
        began = asyncio.get_running_loop().time()
        body = await request.read()
        try:
            review = _reviewed(body)
        except NotAReview as e:
            self._answers.labels(phase, "unreadable").inc()
            return web.Response(status=400, text=f"{e}\n")
        answer = await self._answer(review, phase, judge)
        self._answers.labels(phase, _outcome(answer)).inc()
        self._seconds.labels(phase).observe(asyncio.get_running_loop().time() - began)
        return web.Response(body=encode_review(answer), content_type="application/json")

    async def _answer(self, review: ReviewRequest, phase: str, judge: Judge) -> ReviewAnswer:
        try:
            trace = _object(bytes(review.object)).metadata.annotations.get(TRACE_KEY, "")
            notes = await self._namespaces.notes(review.namespace) if review.namespace else {}
            with telemetry.span(
                f"tessera.scheduler.{phase}", parent=trace, namespace=review.namespace,
                pod=review.name, operation=review.operation,
            ) as span:  # fmt: skip
                setting = Setting(
                    namespace=notes, allowance=self._allowance(review.namespace),
                    traceparent=span.traceparent,
                )  # fmt: skip
                answer = judge(self._rules, review, setting)
                span.set(outcome=_outcome(answer))
                if answer.status is not None:
                    span.set(refusal=answer.status.message)
                    _log.debug(
                        "refused", phase=phase, namespace=review.namespace, pod=review.name,
                        why=answer.status.message,
                    )  # fmt: skip
        except DecodeError as e:
            return refused(
                review, Rejected(field="object", value="", remedy=f"it cannot be read: {e}")
            )
        return answer


def _reviewed(body: bytes) -> ReviewRequest:
    """The request in a body, of a kind that is reviewed here. Raises NotAReview."""
    review = decode_review(body)
    if review.kind.kind not in KINDS:
        raise NotAReview(f"request.kind: {review.kind.kind[:64]!r}: register this webhook for pods")
    return review


def _outcome(answer: ReviewAnswer) -> str:
    if not answer.allowed:
        return "refused"
    return "changed" if answer.patch else "allowed"
