"""A webhook over TLS that a test scripts, and the configurations that name it."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.contract.certificates import Authority
from tests.contract.client import ANSWER_S, Answer, Json
from tests.contract.cluster import Cluster
from tests.contract.objects import a_config_map, a_pod

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
POD_RULE: Json = {
    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
}  # fmt: skip
PROBE_RULE: Json = {**POD_RULE, "resources": ["configmaps"]}

Script = Callable[[Json], Any]
OpenAdmission = Callable[[], AbstractAsyncContextManager[tuple[Cluster, "Receiver"]]]


def let(_: Json) -> Json:
    """Allow what is asked about."""
    return {"allowed": True}


def patch(*steps: Json) -> Script:
    """Allow it with these steps of a JSON patch."""
    text = base64.b64encode(json.dumps(steps).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": text}


def deny(**status: Any) -> Script:
    """Refuse it with that status."""
    return lambda _: {"allowed": False, "status": status}


def annotate(key: str, value: str) -> Json:
    """A step that gives an object without annotations one."""
    return {"op": "add", "path": "/metadata/annotations", "value": {key: value}}


async def create(cluster: Cluster, name: str = "p", **facts: Any) -> Answer:
    """Try to create a pod."""
    return await cluster.admin.post(cluster.pods, a_pod(name, **facts))


class Receiver:
    """Notes each review under its path, and answers as the script of that path says.

    A script gets the review's request and gives the review's response without its uid, an awaitable
    of that, or bytes, which are sent as they are.
    """

    def __init__(self) -> None:
        self.url = ""
        self.ca = b""
        self.scripts: dict[str, Script] = {}
        self.reviews: list[tuple[str, Json]] = []
        self._connections: dict[asyncio.Transport, Any] = {}

    def requests(self, path: str = "hook") -> list[Json]:
        """The requests that came to that path."""
        return [request for name, request in self.reviews if name == path]

    async def answer(self, request: web.Request) -> web.Response:
        """Serve one call."""
        if request.transport is not None:
            sock = request.transport.get_extra_info("socket")
            self._connections.setdefault(request.transport, sock)
        path = request.match_info["path"]
        review = await request.json()
        assert (review["kind"], review["apiVersion"]) == (
            "AdmissionReview", "admission.k8s.io/v1",
        )  # fmt: skip
        self.reviews.append((path, review["request"]))
        said = self.scripts.get(path, let)(review["request"])
        if not isinstance(said, dict | bytes):
            said = await said
        if isinstance(said, bytes):
            return web.Response(body=said, content_type="application/json")
        response = {"uid": review["request"]["uid"], **said}
        return web.json_response({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        })  # fmt: skip

    async def close(self) -> None:
        """Cut all connections, and wait for it: a test's loop is gone soon after."""
        for transport in self._connections:
            transport.abort()
        async with asyncio.timeout(ANSWER_S):
            while any(each.fileno() != -1 for each in self._connections.values()):
                await asyncio.sleep(0)

    def client_config(self, path: str) -> Json:
        """How a webhook's configuration says where this is."""
        return {"url": f"{self.url}/{path}", "caBundle": base64.b64encode(self.ca).decode()}

    def hook(self, cluster: Cluster, path: str = "hook", **facts: Any) -> Json:
        """A webhook of a configuration, for pods that are created in the test's namespace."""
        mine = {"matchLabels": {"kubernetes.io/metadata.name": cluster.own}}
        return {
            "name": f"{path}.contract.dev", "admissionReviewVersions": ["v1"],
            "clientConfig": self.client_config(path),
            "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 10,
            "rules": [POD_RULE], "namespaceSelector": mine, **facts,
        }  # fmt: skip

    async def register(self, cluster: Cluster, *hooks: Json, kind: str = "Mutating") -> None:
        """Add a configuration with these webhooks, and wait until the server acts by it."""
        count = len(self.requests("probe"))
        probe = self.hook(cluster, "probe", rules=[PROBE_RULE], failurePolicy="Ignore")
        body = {"metadata": {"generateName": "contract-"}, "webhooks": [*hooks, probe]}
        await cluster.make(f"{REGISTRATION}/{kind.lower()}webhookconfigurations", body)
        async with asyncio.timeout(ANSWER_S):
            while len(self.requests("probe")) == count:
                path = cluster.path("configmaps")
                await cluster.admin.post(path, a_config_map("probe"), dryRun="All")
                await asyncio.sleep(0.02)


@asynccontextmanager
async def open_receiver(folder: Path) -> AsyncGenerator[Receiver]:
    """Serve webhooks on 127.0.0.1 with a certificate of its own authority."""
    receiver = Receiver()
    authority = Authority("webhooks")
    pair = authority.server("localhost")
    (folder / "hook.pem").write_bytes(pair.certificate + pair.key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "hook.pem")
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/{path}", receiver.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        receiver.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        receiver.ca = authority.certificate
        yield receiver
    finally:
        await receiver.close()
        await runner.cleanup()
