"""The HTTP side of the aggregated API: who asks, may they, and objects as Kubernetes writes them.

It promises no speed: filter and bind go first, few explanations are computed at once, and what
exceeds a bound is answered 429.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import Struct

from tessera_core.gang_scheduling.view import QueueView
from tessera_runtime import logs
from tessera_runtime.errors import ApiExpired, ApiNotFound, ApiRefused, TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.authorization import Caller
from tessera_runtime.metrics import MetricsRegistry as Metrics
from tessera_scheduler.explain.explanation import Explainer
from tessera_scheduler.visibility import tables
from tessera_scheduler.visibility.discovery import DOCUMENTS
from tessera_scheduler.visibility.front_proxy import NOBODY, FrontProxy
from tessera_scheduler.visibility.pod_explanations import brief, whole
from tessera_scheduler.visibility.queue_states import listed_queues
from tessera_scheduler.visibility.reviews import Action, Reviews
from tessera_scheduler.visibility.settings import USER_MOST, VisibilitySettings
from tessera_scheduler.visibility.statuses import StatusRefusal, forbidden, no_such_pod
from tessera_schema.endpoints.queue_states import QUEUES_PLURAL
from tessera_schema.endpoints.visibility import (
    GROUP,
    PLURAL,
    ROOT,
    VERSION,
    ExplanationListMeta,
    PodExplanation,
    PodExplanationList,
)
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Pod

LIST_MOST: Final = 100
"""Pods of one page of a list."""
ANSWER_MOST: Final = 4 * 2**20
"""Bytes of an answer; a larger one is given without its nodes."""
NAME_MOST: Final = 253
"""Bytes of a name in a path: the longest that Kubernetes accepts."""
AGAIN_S: Final = 2
"""Seconds after which a client that was refused may try again."""

_log = logs.named("tessera.scheduler.visibility")
_pod: Final = decoder(Pod)
_encode: Final = msgspec.json.Encoder().encode


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    message: str = ""


class _Conditions(Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _PodConditions(Struct, frozen=True):
    status: _Conditions = _Conditions()


class _ListMeta(Struct, frozen=True):
    continue_: str = msgspec.field(name="continue", default="")


class _Pods(Struct, frozen=True):
    items: tuple[Pod, ...] = ()
    metadata: _ListMeta = _ListMeta()


_pod_conditions: Final = decoder(_PodConditions)
_pods: Final = decoder(_Pods)
QueueSource = Callable[[], Sequence[QueueView] | None]
"""Gives the queues as they stand; None on a replica that does not lead."""
_Answer = Callable[[web.Request, Caller], Awaitable[web.Response]]


class Visibility:
    """Answers the requests that the API server passes on."""

    def __init__(
        self,
        kube: Kube,
        explainer: Explainer,
        settings: VisibilitySettings,
        metrics: Metrics,
        queues: QueueSource | None = None,
    ) -> None:
        """Made inside the event loop that serves it. Until `proxy` is set, every request is
        refused. `queues` is None where no queues are followed."""
        self.proxy: FrontProxy = NOBODY
        self._kube, self._explainer, self._settings = kube, explainer, settings
        self._queues = queues
        self._reviews = Reviews(kube, explainer.clock.time, settings.review_s)
        self._turns = asyncio.Semaphore(settings.at_once)
        self._here: Counter[str] = Counter()
        """User -> requests that are answered or wait."""
        self._answers = metrics.counter(
            "visibility_answers_total", "Answers of the aggregated API by HTTP status", ("status",)
        )

    def routes(self) -> list[web.RouteDef]:
        """To be served over TLS only, with clients' certificates asked for."""
        of_namespace = f"{ROOT}/namespaces/{{namespace}}/{PLURAL}"
        return [
            *(web.get(path, partial(self._handle, _document)) for path in DOCUMENTS),
            web.get(f"{ROOT}/{PLURAL}", partial(self._handle, self._list)),
            web.get(of_namespace, partial(self._handle, self._list)),
            web.get(f"{of_namespace}/{{name}}", partial(self._handle, self._get)),
            web.get(f"{ROOT}/{QUEUES_PLURAL}", partial(self._handle, self._list_queues)),
            web.get(
                f"{ROOT}/namespaces/{{namespace}}/{QUEUES_PLURAL}",
                partial(self._handle, self._list_queues),
            ),
            web.route("*", "/{path:.*}", partial(self._handle, _nothing)),
        ]

    async def _handle(self, answer: _Answer, request: web.Request) -> web.Response:
        try:
            response = await self._bounded(answer, request)
        except StatusRefusal as e:
            response = e.response()
        except ApiExpired as e:
            response = StatusRefusal(400, f"continue: {e.message}: list again").response()
        except TimeoutError:
            text = f"no answer within {self._settings.whole_s:g} s: try again"
            response = StatusRefusal(503, text, retry_s=AGAIN_S).response()
        except (TesseraError, msgspec.DecodeError) as e:
            _log.warning("visibility failed", problem=str(e))
            text = "the API server did not say what the caller may do, or what the pod is"
            response = StatusRefusal(503, text, retry_s=AGAIN_S).response()
        self._answers.labels(str(response.status)).inc()
        return response

    async def _bounded(self, answer: _Answer, request: web.Request) -> web.Response:
        caller = self._caller(request)
        user = caller.username
        if self._here.total() >= self._settings.waiting or self._here[user] >= USER_MOST:
            text = f"{self._here[user]} of your requests are being answered: come back in a moment"
            raise StatusRefusal(429, text, retry_s=AGAIN_S)
        self._here[user] += 1
        try:
            async with asyncio.timeout(self._settings.whole_s):
                return await answer(request, caller)
        finally:
            self._here[user] -= 1
            self._here += Counter()  # forgets those with none

    def _caller(self, request: web.Request) -> Caller:
        certificate = request.get_extra_info("peercert")
        caller = self.proxy.caller(certificate, list(request.headers.items()))
        if caller is None:
            raise StatusRefusal(
                401, f"ask the cluster's API server for {ROOT}: it says here who you are"
            )
        return caller

    async def _must(
        self, caller: Caller, verb: str, namespace: str, name: str = "", resource: str = PLURAL
    ) -> None:
        action = Action(
            verb=verb, group=GROUP, version=VERSION, resource=resource, namespace=namespace,
            name=name,
        )  # fmt: skip
        if not await self._reviews.allowed(caller, action):
            raise forbidden(caller.username, verb, namespace, name, resource)

    async def _get(self, request: web.Request, caller: Caller) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if max(len(namespace), len(name)) > NAME_MOST:
            raise no_such_pod(name[:NAME_MOST])
        await self._must(caller, "get", namespace, name)
        try:
            raw = await self._kube.call(Verb.GET, paths.pod(namespace, name))
        except ApiNotFound:
            raise no_such_pod(name) from None
        async with self._turns:
            found = await whole(
                self._explainer,
                _pod(raw),
                partial(self._reviews.visible, caller),
                scheduler=_scheduler(raw),
                cards=_truth(request, "cards"),
            )
        if tables.wanted(request.headers.get("Accept", "")):
            return _sent(tables.table([found], ExplanationListMeta()))
        body = _encode(found)
        if len(body) > ANSWER_MOST:
            more = found.more_nodes + len(found.nodes)
            body = _encode(msgspec.structs.replace(found, nodes=(), more_nodes=more))
        return web.Response(body=body, content_type="application/json")

    async def _list(self, request: web.Request, caller: Caller) -> web.Response:
        namespace = request.match_info.get("namespace", "")
        if _truth(request, "watch"):
            raise StatusRefusal(
                405, f"{PLURAL} cannot be watched: they are computed when asked for"
            )
        await self._must(caller, "list", namespace)
        query = {"fieldSelector": "spec.nodeName=,status.phase=Pending", "limit": _limit(request)}
        if request.query.get("continue"):
            query["continue"] = request.query["continue"]
        path = paths.in_core(namespace, "pods") if namespace else paths.PODS
        try:
            page = _pods(await self._kube.call(Verb.GET, path, query=query))
        except ApiRefused as e:
            if e.status != 400:
                raise
            raise StatusRefusal(400, e.message) from None
        found: list[PodExplanation] = []
        async with self._turns:
            for pod in page.items:
                one = await brief(self._explainer, pod, partial(self._reviews.visible, caller))
                found += [] if one is None else [one]
                await asyncio.sleep(0)
        metadata = ExplanationListMeta(continue_=page.metadata.continue_)
        if tables.wanted(request.headers.get("Accept", "")):
            return _sent(tables.table(found, metadata))
        return _sent(PodExplanationList(metadata=metadata, items=tuple(found)))

    async def _list_queues(self, request: web.Request, caller: Caller) -> web.Response:
        namespace = request.match_info.get("namespace", "")
        if _truth(request, "watch"):
            raise StatusRefusal(405, f"{QUEUES_PLURAL} cannot be watched: list them again")
        await self._must(caller, "list", namespace, resource=QUEUES_PLURAL)
        if self._queues is None:
            text = "no queues are followed: set TESSERA_GANGS_SCHEDULING=on at the scheduler"
            raise StatusRefusal(404, text)
        views = self._queues()
        if views is None:
            raise StatusRefusal(503, "this replica does not lead: try again", retry_s=AGAIN_S)
        async with self._turns:
            found = await listed_queues(views, namespace, partial(self._reviews.visible, caller))
        return _sent(found)


async def _document(request: web.Request, _: Caller) -> web.Response:
    return _sent(DOCUMENTS[request.path.rstrip("/")])


async def _nothing(request: web.Request, _: Caller) -> web.Response:
    if request.method not in ("GET", "HEAD"):
        raise StatusRefusal(405, f"{PLURAL} can be read, and nothing else")
    raise StatusRefusal(404, "the server could not find the requested resource")


def _sent(body: Any) -> web.Response:
    return web.Response(body=_encode(body), content_type="application/json")


def _truth(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() in ("true", "1")


def _limit(request: web.Request) -> str:
    asked = request.query.get("limit", "")
    few = int(asked) if asked.isdecimal() and len(asked) < 12 else 0
    return str(min(few, LIST_MOST) or LIST_MOST)


def _scheduler(raw: bytes) -> str:
    """What kube-scheduler wrote on a pod that it could not place."""
    conditions = _pod_conditions(raw).status.conditions
    return next(
        (c.message for c in conditions if c.type == "PodScheduled" and c.status == "False"), ""
    )
