"""Tessera on a real control plane, as one test has it: our services, its nodes and its pods.

    async with real_cluster(plane, tmp_path) as cluster:
        await cluster.nodes(2, cards=4)
        await cluster.pod("p", a_share(4000))
        await cluster.until_bound("p")

Every process is a real one. What a test makes is deleted at its end, so the next finds the control
plane empty.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp

from tessera_embedded.nats_server import NatsServer, open_nats
from tessera_embedded.ports import reserved_ports
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tests.cluster.objects import a_card_node, a_share, a_share_pod
from tests.cluster.plane import HOME, LEASES, Plane
from tests.cluster.replica import PORTS, Replica
from tests.contract.client import Client, Json

WAIT_S: Final = 60.0
"""For what takes a second or two on a machine that does nothing else."""
LOOK_S: Final = 0.2
CLIENTS: Final = 16
SERVICES: Final = f"/api/v1/namespaces/{HOME}/services"
_CONFIGURATION: Final = (
    "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.visibility.tessera.dev",
    f"{SERVICES}/tessera-scheduler",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tessera",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/tessera",
)


class RealCluster:
    """Made by `real_cluster`."""

    def __init__(self, plane: Plane, admin: Client, nats: NatsServer, folder: Path) -> None:
        """Nothing runs yet."""
        self.plane = plane
        self.admin = admin
        self.nats = nats
        self.folder = folder
        self.own = f"t-{secrets.token_hex(3)}"
        """The namespace of this test, and the prefix of its nodes."""
        self.replicas: list[Replica] = []
        self.cards: dict[str, dict[str, Any]] = {}
        """Node -> card's id -> card, as this test published them."""
        self.namespaces: list[str] = []
        self._made: list[str] = []

    @property
    def scheduler(self) -> Replica:
        """The first one."""
        return self.replicas[0]

    # -- making things

    async def make(self, path: str, body: Json) -> Json:
        """Create an object; one of no namespace is deleted at the end."""
        made = (await self.admin.post(path, body)).done
        if not made["metadata"].get("namespace"):
            self._made.append(f"{path}/{made['metadata']['name']}")
        return made

    async def namespace(self, name: str) -> None:
        """Create a namespace."""
        await self.make("/api/v1/namespaces", {"metadata": {"name": name}})
        self.namespaces.append(name)

    async def nodes(
        self,
        count: int = 1,
        *,
        cards: int = 1,
        vendor: str = "nvidia",
        mib: int = 24576,
        first: int = 0,
    ) -> list[str]:
        """Nodes that show cards as an agent would, numbered from `first`; their names."""
        names = [f"{self.own}-{vendor}-{first + i}" for i in range(count)]
        for name in names:
            shown, body = a_card_node(name, cards, vendor=vendor, mib=mib)
            self.cards.setdefault(name, {}).update({card.id: card for card in shown})
            await self.make("/api/v1/nodes", body)
        return names

    async def publish(self, node: str, vendor: str, published: NodeCardsAnnotation) -> None:
        """Publish other cards of a node."""
        notes = {f"cards.tessera.dev/{vendor}": encode_node_cards(published)}
        body: Json = {"metadata": {"annotations": notes}}
        (await self.admin.patch(f"/api/v1/nodes/{node}", body)).done  # noqa: B018  (checks)

    def pods_path(self, name: str = "", namespace: str = "") -> str:
        """Where pods are."""
        return f"/api/v1/namespaces/{namespace or self.own}/pods" + (f"/{name}" if name else "")

    async def pod(self, name: str, limits: Mapping[str, str], **more: Any) -> Json:
        """Create a pod with one container."""
        return await self.make(self.pods_path(), a_share_pod(name, limits, **more))

    async def burst(self, names: Sequence[str], limits: Mapping[str, str]) -> None:
        """Create equal pods, many at once. What the API server does not take is sent again."""
        left = list(reversed(names))

        async def client() -> None:
            while left:
                body = a_share_pod(left.pop(), limits)
                await self.until(partial(self._created, body), "a pod created")

        async with asyncio.TaskGroup() as group:
            for i in range(CLIENTS):
                group.create_task(client(), name=f"client {i}")

    async def _created(self, body: Json) -> bool:
        answer = await self.admin.post(self.pods_path(), body)
        assert answer.status in {201, 409, 429, 500, 503}, answer
        return answer.status in {201, 409}

    async def delete(self, names: Collection[str]) -> None:
        """Delete pods at once, as their node would in the end."""
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self._delete(name), name=name)

    async def _delete(self, name: str) -> None:
        await self.admin.delete(self.pods_path(name), gracePeriodSeconds="0")

    # -- looking

    async def pods(self, namespace: str = "") -> list[Json]:
        """All pods of a namespace, this test's own by default."""
        answer = await self.admin.get(self.pods_path(namespace=namespace))
        found: list[Json] = answer.done["items"]
        return found

    async def bound(self, namespace: str = "") -> list[Json]:
        """Those that have a node."""
        return [pod for pod in await self.pods(namespace) if pod["spec"].get("nodeName")]

    async def until_bound(self, *names: str, namespace: str = "") -> list[Json]:
        """Wait until these pods have nodes; all pods that have one then."""

        async def holds() -> list[Json]:
            found = await self.bound(namespace)
            there = {pod["metadata"]["name"] for pod in found}
            return found if there.issuperset(names) else []

        found: list[Json] = await self.until(holds, f"pods {', '.join(names[:5])} bound")
        return found

    async def until_count(self, count: int) -> list[Json]:
        """Wait until so many pods have nodes, and see that no more get one for a while."""

        async def holds() -> list[Json]:
            found = await self.bound()
            return found if len(found) >= count else []

        await self.until(holds, f"{count} pods bound")
        await asyncio.sleep(3)
        found = await self.bound()
        assert len(found) == count, len(found)
        return found

    async def until(self, holds: Callable[[], Any], what: str, within_s: float = WAIT_S) -> Any:
        """Wait until it holds; what it gave."""
        answer: Any = None
        try:
            async with asyncio.timeout(within_s):
                while True:
                    answer = await self._tried(holds)
                    if answer:
                        return answer
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise AssertionError(f"not in {within_s:g} s: {what}; {await self._state()}") from None

    async def _tried(self, holds: Callable[[], Any]) -> Any:
        try:
            return await holds()
        except aiohttp.ClientError:
            return None

    async def _state(self) -> str:
        pods = [
            (p["metadata"]["name"], c.get("message", ""))
            for p in await self.pods()
            for c in p["status"].get("conditions", ())
            if not p["spec"].get("nodeName")
        ]
        logs = "\n".join(f"--- {r.name}\n{r.said()[-1500:]}" for r in self.replicas)
        return f"waiting: {pods[:5]} ({len(pods)})\n{logs}"

    async def leader(self) -> Replica:
        """The one replica that is ready, once there is one."""

        async def one() -> Replica | None:
            ready = [replica for replica in self.replicas if await replica.ready()]
            assert len(ready) < 2, [replica.name for replica in ready]
            return ready[0] if ready else None

        found: Replica = await self.until(one, "a replica ready")
        return found

    async def phases(self) -> set[str]:
        """In which phases the API server asks the webhook about a pod that asks for a share: what
        is written of its registration takes effect only a while later."""
        before = [await replica.reviews() for replica in self.replicas]
        probe = a_share_pod("probe", a_share())
        await self.admin.post(self.pods_path(), probe, dryRun="All")
        after = [await replica.reviews() for replica in self.replicas]
        asked = {row for was, now in zip(before, after, strict=True)
                 for row, _ in now.items() - was.items()}  # fmt: skip
        return {phase for phase in ("admit", "validate") for row in asked if f'"{phase}"' in row}

    # -- running

    @asynccontextmanager
    async def replica(
        self, name: str, *, alone: bool = True, gated: bool = False,
        more: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Replica]:  # fmt: skip
        """One scheduler service and its kube-scheduler, for the length of the block."""
        with reserved_ports(len(PORTS)) as ports:
            replica = Replica(
                name, self.plane, self.folder, self.nats.url, ports,
                alone=alone, gated=gated, more=more,
            )  # fmt: skip
            self.replicas.append(replica)
            try:
                replica.start()
                if gated:  # As the startup probe of `ha` has it: the Lease is looked after first.
                    await self.until(replica.warm, f"{name} warm")
                async with self.plane.control.scheduler(replica.configuration) as caller:
                    replica.kube_scheduler = caller
                    yield replica
                replica.check()
            finally:
                await asyncio.to_thread(replica.stop)

    async def clean(self) -> None:
        """Delete what others would see."""
        for path in _CONFIGURATION:
            await self.admin.delete(path)
        for replica in self.replicas:
            await self.admin.delete(f"{LEASES}/{replica.name}")
        for namespace in self.namespaces:
            await self.admin.delete(self.pods_path(namespace=namespace), gracePeriodSeconds="0")
        for path in reversed(self._made):
            await self.admin.delete(path)
        await self.admin.delete(f"{LEASES}/tessera-scheduler")


@asynccontextmanager
async def real_cluster(
    plane: Plane, folder: Path, replicas: Sequence[str] = ("tessera-a",), *, gated: bool = False,
    more: Mapping[str, str] | None = None,
) -> AsyncGenerator[RealCluster]:  # fmt: skip
    """The services on that control plane, ready to place; `gated` as in the component `ha`;
    `more` are further settings of the services."""
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(plane.client())
        nats = await stack.enter_async_context(open_nats(folder / "nats"))
        cluster = RealCluster(plane, admin, nats, folder)
        stack.push_async_callback(cluster.clean)
        lease: Json = {"metadata": {"name": "tessera-scheduler", "namespace": HOME}, "spec": {}}
        (await admin.post(LEASES, lease)).done  # noqa: B018  (checks)
        await cluster.namespace(cluster.own)
        for name in replicas:
            await stack.enter_async_context(
                cluster.replica(name, alone=len(replicas) == 1, gated=gated, more=more)
            )
        await cluster.leader()

        async def called() -> bool:
            return await cluster.phases() == {"admit", "validate"}

        await cluster.until(called, "the webhook called")
        yield cluster


OpenCluster = Callable[..., AbstractAsyncContextManager[RealCluster]]
