"""The webhook's HTTP side: bodies in and out, spans, metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, partial
from time import perf_counter
from typing import Final

from msgspec import DecodeError, Struct

from tessera_core.dialect_kit.contract import Rejected
from tessera_core.quota.allowance import Allowance
from tessera_runtime import logs
from tessera_runtime.http.fast_path import Answer, Reply, text_reply
from tessera_runtime.metrics import MetricsRegistry as Metrics
from tessera_runtime.tracing import tracing
from tessera_runtime.tracing.durations import observe
from tessera_scheduler.webhook.namespaces import NOTHING, NamespacePolicies, NamespacePolicy
from tessera_scheduler.webhook.oversize import unread
from tessera_scheduler.webhook.responses import refused
from tessera_scheduler.webhook.review import mutate, validate
from tessera_scheduler.webhook.rules import Setting, WebhookRules
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.endpoints.admission_review import (
    NotAReview,
    ReviewAnswer,
    ReviewRequest,
    decode_review,
    encode_review,
)
from tessera_schema.json_codec import decoder
from tessera_schema.kube import ObjectMeta

Reviewer = Callable[[WebhookRules, ReviewRequest, Setting], ReviewAnswer]

KINDS: Final = ("Pod", "Binding")
_log = logs.named("tessera.scheduler.webhook")


class _Object(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_object = decoder(_Object)
_TRACE: Final = TRACE_KEY.encode()


class _Case(Struct, frozen=True):
    """One review that is being answered."""

    phase: str
    reviewer: Reviewer
    review: ReviewRequest
    began: float


class Webhook:
    """Answers the API server's reviews."""

    def __init__(
        self,
        rules: WebhookRules,
        namespaces: NamespacePolicies,
        allowance: Callable[[str], Allowance],
        metrics: Metrics,
    ) -> None:
        """`allowance` gives what a namespace may use, for early warnings."""
        self._rules = rules
        self._namespaces = namespaces
        self._allowance = allowance
        answers = metrics.counter(
            "admissions_total", "Answers of the webhook", ("phase", "outcome")
        )
        seconds = metrics.histogram(
            "admission_seconds", "Time that the webhook took for an answer", ("phase",)
        )
        self._answers, self._seconds = cache(answers.labels), cache(seconds.labels)

    def answers(self) -> dict[str, Answer]:
        """The answers to `/mutate` and `/validate`, by path."""
        return {
            "/mutate": partial(self._reply, "admit", mutate),
            "/validate": partial(self._reply, "validate", validate),
        }

    def _reply(self, phase: str, reviewer: Reviewer, body: bytes) -> Reply | Awaitable[Reply]:
        """The answer, at once unless the namespace has to be read first."""
        began = perf_counter()
        try:
            review = _reviewed(body)
        except NotAReview as e:
            self._answers(phase, "unreadable").inc()
            return text_reply(f"{e}\n", 400)
        case = _Case(phase, reviewer, review, began)
        written = self._namespaces.remembered(review.namespace) if review.namespace else NOTHING
        return self._when_known(case) if written is None else self._finish(case, written)

    async def _when_known(self, case: _Case) -> Reply:
        return self._finish(case, await self._namespaces.written(case.review.namespace))

    def _finish(self, case: _Case, written: NamespacePolicy) -> Reply:
        answer, trace = self._answer(case, written)
        self._answers(case.phase, _outcome(answer)).inc()
        observe(self._seconds(case.phase), perf_counter() - case.began, trace)
        return Reply(encode_review(answer))

    def _answer(self, case: _Case, written: NamespacePolicy) -> tuple[ReviewAnswer, str]:
        """The answer, and the traceparent of its span; empty where there is none."""
        review = case.review
        try:
            notes = written.notes
            at_once = unread(self._rules, review, Setting(namespace=notes))
            if at_once is not None:
                return at_once, ""
            trace = _trace_of(bytes(review.object))
            with tracing.span(
                f"tessera.scheduler.{case.phase}", parent=trace, namespace=review.namespace,
                pod=review.name, operation=review.operation,
            ) as span:  # fmt: skip
                setting = Setting(
                    namespace=notes, labels=written.labels,
                    allowance=self._allowance(review.namespace), traceparent=span.traceparent,
                )  # fmt: skip
                answer = case.reviewer(self._rules, review, setting)
                span.set(outcome=_outcome(answer))
                if answer.status is not None:
                    span.set(refusal=answer.status.message)
                    _log.debug(
                        "refused", phase=case.phase, namespace=review.namespace, pod=review.name,
                        why=answer.status.message,
                    )  # fmt: skip
        except DecodeError as e:
            why = Rejected(field="object", value="", remedy=f"it cannot be read: {e}")
            return refused(review, why), ""
        return answer, span.traceparent


def _reviewed(body: bytes) -> ReviewRequest:
    """The request in a body, of a kind that is reviewed here. Raises NotAReview."""
    review = decode_review(body)
    if review.kind.kind not in KINDS:
        raise NotAReview(f"request.kind: {review.kind.kind[:64]!r}: register this webhook for pods")
    return review


def _trace_of(manifest: bytes) -> str:
    """The trace on the object; most have none, and the API server writes keys plainly."""
    if _TRACE not in manifest:
        return ""
    return _object(manifest).metadata.annotations.get(TRACE_KEY, "")


def _outcome(answer: ReviewAnswer) -> str:
    if not answer.allowed:
        return "refused"
    return "changed" if answer.patch else "allowed"
