"""A scheduler's books and its `explain`, asked over HTTP as its users ask."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from tessera_core.decisions import Decisions
from tessera_core.filtering import Filter
from tessera_core.ledger import Ledger
from tessera_core.registry import load
from tessera_embedded.apiserver import Rule, User
from tessera_runtime import http
from tessera_runtime.http import HttpSettings
from tessera_runtime.metrics import Registry as Metrics
from tessera_scheduler.explaining import Explainer, ExplainSettings
from tessera_scheduler.explanations import Books
from tessera_schema.explained import Explanation, decode_explanation
from tessera_schema.quotas import Limit
from tessera_testing.builders import a_card
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store
from tests.dialects.adding import acme

REGISTRY = load(extra=[acme])
READER = Rule(("get",), ("pods",), namespaces=("team",))
"""What jane may do; joe may do nothing."""


class Scheduler:
    """Books of some nodes with a card of 16 GiB each, beside an API server."""

    def __init__(self, nodes: int = 2, limits: Sequence[Limit] = ()) -> None:
        self.clock = LoopClock()
        self.store = a_store(self.clock)
        for name in ("team", "other"):
            self._made("/api/v1/namespaces", {"metadata": {"name": name}})
        self.store.access.give("jane-token", User("jane"), (READER,))
        self.store.access.give("joe-token", User("joe"))
        self.ledger, self.decisions, self.metrics = Ledger(), Decisions(), Metrics("scheduler")
        for n in range(nodes):
            self.ledger.put_node(f"n{n}", [a_card(f"n{n}-0", vendor="acme")])
        self.ledger.set_limits(limits)
        self.kube = FakeKube(self.store)
        self.filter = Filter(REGISTRY, self.ledger, self.decisions)

    def _made(self, path: str, body: Any) -> Any:
        response = self.store.handle("POST", path, body=msgspec.json.encode(body))
        assert response.code == 201, response.body
        return msgspec.json.decode(response.body)

    def pod(self, name: str, gib: int, namespace: str = "team", **spec: Any) -> str:
        """Create a pod that asks for so much; its uid."""
        amounts = {"acme.com/gib": str(gib)} if gib else {}
        container = {
            "name": "c",
            "image": "i",
            "resources": {"limits": amounts, "requests": amounts},
        }
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        uid: str = self._made(f"/api/v1/namespaces/{namespace}/pods", body)["metadata"]["uid"]
        return uid

    def ask(self, name: str, namespace: str = "team") -> None:
        """Have kube-scheduler ask about it."""
        pod = self.store.handle("GET", f"/api/v1/namespaces/{namespace}/pods/{name}").body
        names = msgspec.json.encode(list(self.ledger.fleet.rows))
        self.filter(b'{"Pod":' + pod + b',"NodeNames":' + names + b"}", self.clock.time())


class Asker:
    """Somebody with a token."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def get(self, path: str, token: str | None = "jane-token") -> tuple[int, bytes]:  # noqa: S107  (a test's)
        """Status and body."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with self._session.get(self._url + path, headers=headers) as response:
            return response.status, await response.read()

    async def explain(self, path: str) -> Explanation:
        """The explanation that jane gets."""
        status, body = await self.get(f"/explain/{path}")
        assert status == 200, body
        return decode_explanation(body)


@asynccontextmanager
async def asking(
    scheduler: Scheduler, settings: ExplainSettings | None = None, leader: str = ""
) -> AsyncGenerator[Asker]:
    """Serve `explain` on these books; `leader` = another replica that leads."""
    books = Books(
        registry=REGISTRY, ledger=scheduler.ledger, decisions=scheduler.decisions,
        clock=scheduler.clock,
    )  # fmt: skip
    explainer = Explainer(
        scheduler.kube, books, settings or ExplainSettings(), scheduler.metrics, lambda: leader
    )
    app = http.application(HttpSettings())
    app.add_routes(explainer.routes())
    async with (
        http.serving(app, HttpSettings()) as served,
        aiohttp.ClientSession() as session,
    ):
        yield Asker(session, served.url)
