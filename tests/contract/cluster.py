"""A server as one test sees it: with a namespace, and names, that no other test uses."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.contract.client import Client, Json, open_client
from tests.contract.objects import a_binding, a_node, a_pod


class Server(Protocol):
    """What is under test: the real control plane, or the embedded one."""

    @property
    def url(self) -> str:
        """Where it is."""

    @property
    def ca_path(self) -> Path:
        """Who signed its certificate."""

    @property
    def token(self) -> str:
        """The administrator's."""

    @property
    def tokens(self) -> Mapping[str, str]:
        """User -> token, for the administrator, `reader`, who may read pods, `editor`, who may
        change them, `resizer`, who may also resize them, and `nobody`."""

    async def restart(self) -> None:
        """End the server as its operator would, and start it on the same port and data."""

    async def forget_history(self) -> None:
        """Let no resource version but the newest be known, and no page of a list."""

    def scheduler(self, config: Json) -> AbstractAsyncContextManager[object]:
        """Run the scheduler with a KubeSchedulerConfiguration for the length of the block."""


class Cluster:
    """The server, the administrator's client, and a namespace of this test's own."""

    def __init__(self, server: Server, admin: Client) -> None:
        self.server = server
        self.admin = admin
        self.own = f"contract-{secrets.token_hex(4)}"
        """The namespace, and the prefix of whatever has none."""
        self.pods = self.path("pods")
        self.before_asking: Callable[[], Awaitable[object]] | None = None
        """Done once, before the first pod of `scheduling.ask`."""
        self._made: list[str] = []

    def path(self, kind: str, group: str = "api/v1", name: str = "") -> str:
        """The path of a kind in the namespace, or of one object of it."""
        return f"/{group}/namespaces/{self.own}/{kind}" + (f"/{name}" if name else "")

    def user(self, name: str) -> Client:
        """A client in that user's name."""
        return self.admin.named(self.server.tokens[name])

    async def make(self, path: str, body: Json) -> Json:
        """Create an object; one without a namespace is deleted when the test is over."""
        made = (await self.admin.post(path, body)).done
        if "namespace" not in made["metadata"]:
            self._made.append(f"{path}/{made['metadata']['name']}")
        return made

    async def pod(self, name: str = "p", **facts: Any) -> Json:
        """Create a pod in the namespace; `objects.a_pod` says what it may have."""
        return await self.make(self.pods, a_pod(name, **facts))

    async def node(self, name: str = "n", **capacity: str) -> str:
        """Create a node, and return its whole name."""
        made = await self.make("/api/v1/nodes", a_node(f"{self.own}-{name}", **capacity))
        whole: str = made["metadata"]["name"]
        return whole

    async def bound(self, name: str = "p", node: str = "n", **facts: Any) -> Json:
        """Create a pod and bind it; the node need not exist."""
        await self.pod(name, **facts)
        answer = await self.admin.post(f"{self.pods}/{name}/binding", a_binding(name, node))
        assert answer.status == 201, answer
        return (await self.admin.get(f"{self.pods}/{name}")).done

    async def name_of(self, pod: str, **status: Any) -> Json:
        """Write a pod's status, as its node would."""
        answer = await self.admin.patch(f"{self.pods}/{pod}/status", {"status": status})
        return answer.done

    async def clean(self) -> None:
        """Delete what others would see."""
        for path in reversed(self._made):
            await self.admin.delete(path)
        await self.admin.delete(self.pods, gracePeriodSeconds="0")


OpenCluster = Callable[[], AbstractAsyncContextManager[Cluster]]


@asynccontextmanager
async def cluster_on(server: Server) -> AsyncGenerator[Cluster]:
    """A cluster on that server, cleaned at the end."""
    async with open_client(server.url, server.ca_path, server.token) as admin:
        cluster = Cluster(server, admin)
        await cluster.make("/api/v1/namespaces", {"metadata": {"name": cluster.own}})
        try:
            yield cluster
        finally:
            await cluster.clean()
