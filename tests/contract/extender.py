"""A scheduler extender that a test scripts, and the configuration that names it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from aiohttp import web

from tests.contract.client import ANSWER_S, Client, Json
from tests.contract.cluster import Cluster
from tests.contract.objects import GPU, a_binding

PROFILE = "tessera-scheduler"
MEMORY = "contract.tessera.dev/gpumem"
"""A resource that the extender looks after and no node has."""

Script = Callable[[Json], Any]
OpenScheduling = Callable[..., AbstractAsyncContextManager[tuple[Cluster, "Extender"]]]


class Extender:
    """Notes each call in order; answers as its scripts say, or takes the first node and binds.

    A script gets the body and gives the answer, or an awaitable of it, or a status code.
    """

    def __init__(self, admin: Client) -> None:
        self._admin = admin
        self.url = ""
        self.calls: list[tuple[str, Json]] = []
        self.filter: Script = lambda body: {"NodeNames": body["NodeNames"][:1]}
        self.prioritize: Script = lambda body: [
            {"Host": name, "Score": 0} for name in body["NodeNames"]
        ]
        self.bind: Script = self._bound
        self.preempt: Script = lambda body: {"NodeNameToMetaVictims": body["NodeNameToMetaVictims"]}
        self._changed = asyncio.Condition()

    @property
    def verbs(self) -> list[str]:
        """The verbs that were called so far."""
        return [verb for verb, _ in self.calls]

    async def called(self, verb: str, times: int = 1) -> Json:
        """Wait until a verb was called so often; the body of that call."""
        async with asyncio.timeout(ANSWER_S), self._changed:
            await self._changed.wait_for(lambda: self.verbs.count(verb) >= times)
            return [body for name, body in self.calls if name == verb][times - 1]

    async def answer(self, request: web.Request) -> web.Response:
        """Serve one call."""
        verb = request.match_info["verb"]
        body = await request.json()
        async with self._changed:
            self.calls.append((verb, body))
            self._changed.notify_all()
        scripts = {
            "filter": self.filter, "prioritize": self.prioritize, "bind": self.bind,
            "preempt": self.preempt,
        }  # fmt: skip
        said = scripts[verb](body)
        if not isinstance(said, int | dict | list):
            said = await said
        if isinstance(said, int):
            return web.Response(status=said, text="scripted failure")
        return web.json_response(said)

    async def _bound(self, body: Json) -> Json:
        path = f"/api/v1/namespaces/{body['PodNamespace']}/pods/{body['PodName']}/binding"
        binding = a_binding(body["PodName"], body["Node"], uid=body["PodUID"])
        answer = await self._admin.post(path, binding)
        return {} if answer.status == 201 else {"Error": answer.body["message"]}


def configuration(url: str, *verbs: str, patience: str = "5s") -> Json:
    """A KubeSchedulerConfiguration with one profile and this extender."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": PROFILE}],
        "extenders": [{
            "urlPrefix": url, **{f"{verb}Verb": verb for verb in verbs or ("filter", "bind")},
            "weight": 1, "nodeCacheCapable": True, "httpTimeout": patience,
            "managedResources": [
                {"name": GPU}, {"name": MEMORY, "ignoredByScheduler": True},
            ],
        }],
    }  # fmt: skip


@asynccontextmanager
async def open_extender(admin: Client, port: int = 0) -> AsyncGenerator[Extender]:
    """Serve an extender on 127.0.0.1."""
    extender = Extender(admin)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/{verb}", extender.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        extender.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield extender
    finally:
        await runner.cleanup()
