"""What the console answers over HTTP.

GET  /                              the page, at each of its addresses
GET  /assets/NAME                   its files
GET  /api/stream                    the whole state, then differences, as server-sent events
GET  /api/pods/NAMESPACE/NAME       a pod's shares, and its last hour
GET  /api/cards/NODE/INDEX          a card, and its last hour
GET  /api/explanations/NAMESPACE/NAME   why a pod waits, as `tessera explain` has it
GET  /api/queues                    queues and who waits in them, as `tessera queue` has it
POST /api/plans/NAME/decision       approve or decline a plan
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Struct

from tessera_console import caller_api, documents, view_stream
from tessera_console.assets import HEADERS, PAGE, PageAsset, asset_answer
from tessera_console.caller_api import KubeOfCaller, WaitingAnswers
from tessera_console.cluster import ConsoleCluster
from tessera_console.rights import OPEN, ConsoleCaller, NotSignedIn, Rights, RightsUnknown
from tessera_console.settings import LOOPBACK, ConsoleSettings
from tessera_console.view_stream import PageView, SharedNodes
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiConflict, ApiForbidden, ApiNotFound, TesseraError
from tessera_runtime.http.handover import streams
from tessera_schema.json_codec import decoder
from tessera_schema.plans import PlanPhase
from tessera_schema.version import VERSION

PLACES: Final = ("cards", "waiting", "quotas", "queues", "plans", "events", "card", "pod")
"""First parts of the page's addresses."""
_NOBODY: Final = ConsoleCaller(name="", token="", scope=OPEN)
_SENT_BY: Final = "application/json"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_NO_QUEUES: Final = (
    "The API server does not serve the scheduler's extension API: its APIService is missing."
)


class PlanDecision(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a decision."""

    decision: Literal["approved", "declined"]
    version: str
    """`resourceVersion` of the plan as it was shown."""


_decision: Final = decoder(PlanDecision)


class ConsoleHandlers:
    """The handlers of one process."""

    def __init__(
        self, cluster: ConsoleCluster, rights: Rights, kube_of: KubeOfCaller,
        assets: Mapping[str, PageAsset], settings: ConsoleSettings, clock: Clock,
    ) -> None:  # fmt: skip
        self.streaming = 0
        """Pages that are open."""
        self.refused = 0
        """Requests without a token that counts."""
        self._cluster, self._rights, self._kube_of = cluster, rights, kube_of
        self._settings, self._clock = settings, clock
        self._assets = assets
        self._answers = WaitingAnswers(kube_of, settings.answers_s)
        self._nodes = SharedNodes()
        self._facts: Mapping[str, Any] = {
            "cluster": settings.bus.cluster, "version": VERSION,
            "acts": settings.acts, "open": settings.access == "open",
            "every_s": settings.stream.every_s, "history_s": settings.history.every_s,
        }  # fmt: skip

    def routes(self) -> list[web.RouteDef]:
        """All of them."""
        pages = [f"/{place}{rest}" for place in PLACES for rest in ("", "/{rest:.*}")]
        return [
            *(web.get(path, self.page) for path in ("/", *pages)),
            web.get("/assets/{name}", self.asset),
            web.get("/api/stream", self._guarded(self.stream)),
            web.get("/api/pods/{namespace}/{name}", self._guarded(self.pod)),
            web.get("/api/cards/{node}/{index}", self._guarded(self.card)),
            web.get("/api/explanations/{namespace}/{name}", self._guarded(self.explanation)),
            web.get("/api/queues", self._guarded(self.queues)),
            web.post("/api/plans/{name}/decision", self._guarded(self.decision)),
        ]

    # -- files

    async def page(self, request: web.Request) -> web.Response:
        """The page itself is no secret."""
        return asset_answer(request, self._assets[PAGE])

    async def asset(self, request: web.Request) -> web.Response:
        """One of its files."""
        found = self._assets.get(request.match_info["name"])
        return asset_answer(request, found) if found else _refusal(404, "there is no such file")

    # -- answers

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """The state, for as long as the page is open."""
        if self.streaming >= self._settings.stream.most:
            return _refusal(503, "too many pages are open: close one, or set stream.most higher")
        view = PageView(self._cluster, self._nodes, self._facts)
        response = web.StreamResponse(
            headers={**HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        self.streaming += 1
        try:
            # The page connects again, and is answered why not.
            with suppress(NotSignedIn, RightsUnknown, TimeoutError, ConnectionError):
                await response.prepare(request)
                streams(request)
                await self._send(request, response, view)
        finally:
            self.streaming -= 1
        return response

    async def pod(self, request: web.Request) -> web.Response:
        """A pod's shares with their last hour."""
        caller = await self._caller(request)
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        held = documents.holders(self._cluster.rows(), namespace, name)
        if not held or not caller.scope.sees(namespace):
            return _refusal(404, "no such pod holds a card, or you may not list pods there")
        return _json({
            "namespace": namespace, "name": name,
            "shares": [
                {
                    **documents.share_in_full(share, caller.scope), "model": card.card.model,
                    "card_mib": card.card.memory_bytes >> 20,
                    "history": self._cluster.history.of((card.node, card.card.id, share.uid)),
                }
                for card, share in held
            ],
        })  # fmt: skip

    async def card(self, request: web.Request) -> web.Response:
        """A card's last hour; what it is and who holds it is part of the stream."""
        await self._caller(request)
        node, index = request.match_info["node"], request.match_info["index"]
        rows = [row for row in self._cluster.rows() if row.name == node]
        cards = [one for row in rows for one in row.cards if f"{one.card.index}" == index]
        if not cards:
            return _refusal(404, f"node {node} publishes no card {index}")
        history = self._cluster.history.of((node, cards[0].card.id))
        return _json({"node": node, "index": cards[0].card.index, "history": history})

    async def explanation(self, request: web.Request) -> web.Response:
        """Asked with the caller's own token: the scheduler answers what this caller may read."""
        caller = await self._caller(request)
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if not caller.scope.sees(namespace):
            return _refusal(404, "no such pod waits, or you may not list pods there")
        async with self._kube_of(caller) as kube:
            body = await caller_api.explanation(kube, namespace, name)
        return web.Response(body=body, headers={**_API_HEADERS, "Content-Type": _SENT_BY})

    async def queues(self, request: web.Request) -> web.Response:
        """Asked with the caller's own token: the scheduler names what this caller may read."""
        caller = await self._caller(request)
        namespace = "" if caller.scope.everything else min(caller.scope.namespaces, default="")
        try:
            async with self._kube_of(caller) as kube:
                body = await caller_api.queues(kube, namespace)
        except ApiNotFound:
            return _json({"items": [], "message": _NO_QUEUES})
        return web.Response(body=body, headers={**_API_HEADERS, "Content-Type": _SENT_BY})

    async def decision(self, request: web.Request) -> web.Response:
        """Written with the caller's own token: the API server says whether it may."""
        caller = await self._caller(request)
        if not self._settings.acts:
            return _refusal(403, "this console only reads: set TESSERA_ACTS=true, or use "
                                 "`tessera plan approve`")  # fmt: skip
        if not caller.token:
            return _refusal(403, "nobody is signed in here: use `tessera plan approve`")
        try:
            wanted = _decision(await request.read())
        except msgspec.DecodeError as e:
            return _refusal(400, f"the body: {e}")
        name = request.match_info["name"]
        plan = self._cluster.plans.known.get(name) if caller.scope.plans else None
        if plan is None:
            return _refusal(404, f"there is no plan {name}, or you may not list plans")
        if plan.status.phase is not PlanPhase.PROPOSED:
            return _refusal(409, f"plan {name} is {plan.status.phase}: only one that is Proposed "
                                 "can be decided on")  # fmt: skip
        async with self._kube_of(caller) as kube:
            done = await caller_api.decide(kube, caller, name, wanted.version, wanted.decision)
        return _json(documents.plan(done, caller.scope))

    # -- callers

    async def _caller(self, request: web.Request) -> ConsoleCaller:
        """Raises NotSignedIn, RightsUnknown."""
        if self._settings.access == "open":
            return _NOBODY
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise NotSignedIn("no bearer token")
        return await self._rights.caller(token.strip())

    def _guarded(self, handler: Handler) -> Handler:
        """The handler, with what it raises as answers that say what to do."""

        async def answer(request: web.Request) -> web.StreamResponse:
            if self._settings.access == "open" and _host(request) not in LOOPBACK:
                # Another page's script may reach a loopback address by a name of its own.
                return _refusal(403, "open access is for 127.0.0.1 and localhost alone")
            problem = self._cluster.problem()
            if problem:
                return _refusal(503, problem)
            try:
                await self._caller(request)
                return await handler(request)
            except NotSignedIn as e:
                self.refused += 1
                return _refusal(401, f"{e}: sign in with a token of this cluster")
            except RightsUnknown as e:
                return _refusal(503, f"the API server does not say who you are: {e}")
            except TesseraError as e:
                return _refusal(*_STATUS.get(type(e), (502, "the API server does not answer: {}")),
                                why=e)  # fmt: skip

        return answer

    async def _send(
        self, request: web.Request, response: web.StreamResponse, view: PageView
    ) -> None:
        occupancy, settings = self._cluster.feed.occupancy, self._settings.stream
        while True:
            caller = await self._caller(request)
            mine = {r.namespace for r in occupancy.waiting() if caller.scope.sees(r.namespace)}
            answers = await self._answers.of(caller, mine) if mine else {}
            update = view.update(caller, answers, self._clock.time())
            async with asyncio.timeout(settings.write_s):
                await response.write(view_stream.encoded(update))
            await asyncio.sleep(settings.every_s)


_API_HEADERS: Final = {**HEADERS, "Cache-Control": "no-store"}
_STATUS: Final[Mapping[type[TesseraError], tuple[int, str]]] = {
    ApiForbidden: (403, "your rights do not allow it: {}"),
    ApiNotFound: (404, "the API server does not have it: {}"),
    ApiConflict: (409, "it has changed since it was shown: read it again, then decide: {}"),
}


def _json(document: object) -> web.Response:
    body = documents.encoded(document)
    return web.Response(body=body, headers={**_API_HEADERS, "Content-Type": _SENT_BY})


def _refusal(status: int, text: str, *, why: object = "") -> web.Response:
    body = documents.encoded({"error": text.format(why) if why else text})
    return web.Response(
        status=status, body=body, headers={**_API_HEADERS, "Content-Type": _SENT_BY}
    )


def _host(request: web.Request) -> str:
    host = request.host
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
