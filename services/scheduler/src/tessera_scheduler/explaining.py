"""`GET /explain/<namespace>/<name>` and `/explain/<uid>`: why a pod is where it is, or waits.

For whoever may read the pod, by the API server's own word. It promises no speed: filter and bind go
first, and few explanations are computed at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

from aiohttp import web
from msgspec import DecodeError, Meta, Struct

from tessera_runtime import logs
from tessera_runtime.errors import ApiNotFound, TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.metrics import Registry as Metrics
from tessera_scheduler.access import Caller, caller_of, may_read, token_of
from tessera_scheduler.explanations import Books, explain
from tessera_schema.explained import encode_explanation
from tessera_schema.kube import Pod
from tessera_schema.wire import decoder

_log = logs.named("tessera.scheduler.explain")
_pod = decoder(Pod)


class ExplainSettings(Struct, frozen=True, kw_only=True):
    """Explanations."""

    at_once: Annotated[int, Meta(gt=0)] = 2
    """Explanations that are computed at the same time; more wait. Filter and bind go first."""
    whole_s: Annotated[float, Meta(gt=0)] = 20.0
    """Seconds until one is given up, waiting included."""


_Which = Callable[[], tuple[str, str, str]]
"""Namespace, name and uid (or empty) of the pod that is asked for."""


class _Answered(Exception):
    """An answer that is no explanation."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Explainer:
    """Answers questions about pods."""

    def __init__(
        self, kube: Kube, books: Books, settings: ExplainSettings, metrics: Metrics,
        elsewhere: Callable[[], str] = str,
    ) -> None:  # fmt: skip
        """Made inside the event loop that serves it. `elsewhere` names the replica that leads, and
        alone knows what was decided; empty = this one."""
        self._elsewhere = elsewhere
        self._kube = kube
        self._books = books
        self._settings = settings
        self._turns = asyncio.Semaphore(settings.at_once)
        self._answers = metrics.counter(
            "explanations_total", "Answers of explain by HTTP status", ("status",)
        )

    def routes(self) -> list[web.RouteDef]:
        """To be served over TLS only: callers send their tokens."""
        return [
            web.get("/explain/{namespace}/{name}", self._by_name),
            web.get("/explain/{uid}", self._by_uid),
        ]

    async def _by_name(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        return await self._handle(request, lambda: (namespace, name, ""))

    async def _by_uid(self, request: web.Request) -> web.Response:
        uid = request.match_info["uid"]
        return await self._handle(request, lambda: (*self._named(uid), uid))

    async def _handle(self, request: web.Request, which: _Which) -> web.Response:
        try:
            async with asyncio.timeout(self._settings.whole_s):
                self._must_lead()
                caller = await self._caller(request)
                namespace, name, uid = which()
                pod = await self._readable(caller, namespace, name)
                if uid and pod.metadata.uid != uid:
                    raise _gone(f"pod {namespace}/{name} of uid {uid}")
                async with self._turns:
                    explanation = await explain(self._books, pod)
            response = web.Response(
                body=encode_explanation(explanation), content_type="application/json"
            )
        except _Answered as e:
            response = web.Response(status=e.status, text=f"{e}\n")
        except TimeoutError:
            response = web.Response(
                status=503, text=f"no answer within {self._settings.whole_s:g} s: try again\n"
            )
        except (TesseraError, DecodeError) as e:
            _log.warning("explain failed", problem=str(e))
            response = web.Response(
                status=503, text="the API server did not say who asks, or what the pod is\n"
            )
        self._answers.labels(str(response.status)).inc()
        return response

    def _must_lead(self) -> None:
        leader = self._elsewhere()
        if leader:
            raise _Answered(
                503, f"standing by: {leader} leads and knows what was decided: ask again, or "
                f"forward a port of pod/{leader}"
            )  # fmt: skip

    async def _caller(self, request: web.Request) -> Caller:
        token = token_of(request.headers.get("Authorization", ""))
        if not token:
            raise _Answered(401, "send the header Authorization: Bearer <token> of a kubeconfig")
        caller = await caller_of(self._kube, token)
        if caller is None:
            raise _Answered(401, "the token is not known to the API server; it may have expired")
        return caller

    async def _readable(self, caller: Caller, namespace: str, name: str) -> Pod:
        """The pod. Who may not read it does not learn whether it is there."""
        if not await may_read(self._kube, caller, namespace, name):
            raise _Answered(
                403, f"{caller.username} may not get pod {name} in namespace {namespace}"
            )
        try:
            return _pod(await self._kube.call(Verb.GET, paths.pod(namespace, name)))
        except ApiNotFound:
            raise _gone(f"pod {namespace}/{name}") from None

    def _named(self, uid: str) -> tuple[str, str]:
        entry = self._books.ledger.entry(uid)
        if entry is not None:
            return entry.grant.namespace, entry.grant.name
        decision = self._books.decisions.get(uid)
        if decision is None or decision.request is None:
            raise _Answered(
                404, f"nothing is known of uid {uid[:64]}: ask by /explain/<namespace>/<name>"
            )
        return decision.request.namespace, decision.request.name


def _gone(what: str) -> _Answered:
    return _Answered(404, f"{what}: there is none; it may have ended and been deleted")
