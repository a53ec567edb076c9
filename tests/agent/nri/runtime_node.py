"""A node with a container runtime, and an agent that it asks over the wire of NRI."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tessera_agent.agent import Agent
from tessera_agent.api.grant_keys import StoredKeySettings
from tessera_agent.devices.settings import HealthSettings, InventorySettings
from tessera_agent.nri_plugin.settings import NriSettings
from tessera_agent.settings import AgentSettings
from tessera_agent.startup import open_agent
from tessera_agent.usage.settings import UsageSettings
from tessera_core.registry import registry
from tessera_core.trust.grants import Signer, published_key
from tessera_embedded.runtime.merge import amended
from tessera_embedded.runtime.runtime import Runtime, open_runtime
from tessera_kubelet.nri.settings import RuntimeSettings
from tessera_kubelet.nri.types import (
    Adjustment,
    ContainerInfo,
    NriContainerState,
    NriEvent,
    PodSandbox,
)
from tessera_runtime.clock import Clock
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Verb
from tessera_runtime.kube.settings import EventSettings
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.annotation_keys import SIGNING_KEYS, TRACE_KEY
from tessera_schema.cards import MIB
from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant
from tessera_schema.injections import Injection
from tessera_schema.messages.device_reports import NodeUsage
from tessera_testing.bus import FakeBus
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store
from tessera_testing.readers import FakeReader, a_reading

NODE = "worker-1"
SECRET = bytes(range(32))
SIGNER = Signer(SECRET)
SYSTEM = "kube-system"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
DIALECTS = registry.load()


def a_share(container: str = "main", card: int = 0, *, mib: int = 4096, **more: Any) -> Share:
    """A part of a card."""
    share = Share(
        container=container,
        position=0,
        vendor="nvidia",
        dialect="hami",
        card=f"GPU-{card}",
        index=card,
        memory_bytes=mib * MIB,
        cores_percent=0,
    )
    return replace(share, **more)


def a_grant(
    name: str, *shares: Share, given: Mapping[str, Injection] | None = None, **more: Any
) -> Grant:
    """What the scheduler decided for the pod of that name."""
    grant = Grant(
        uid=f"uid-{name}", namespace="team", name=name, node=NODE, shares=shares, given=given or {}
    )
    return replace(grant, **more)


def signed(grant: Grant, signer: Signer = SIGNER) -> str:
    """The annotation."""
    return signer.sign(encode_grant(grant))


def a_pod(name: str, text: str | None = None, **more: Any) -> PodSandbox:
    """A pod as the runtime knows it; `text` is its grant annotation."""
    notes = {TRACE_KEY: TRACE} | ({} if text is None else {GRANT_KEY: text})
    sandbox = PodSandbox(
        id=f"sb-{name}", name=name, uid=f"uid-{name}", namespace="team", annotations=notes
    )
    return replace(sandbox, **more)


def granted(name: str, *shares: Share, given: Mapping[str, Injection] | None = None) -> PodSandbox:
    """A pod with a good grant."""
    return a_pod(name, signed(a_grant(name, *shares, given=given)))


class Node:
    """The runtime, and what it runs."""

    def __init__(self, folder: Path, kube: FakeKube, bus: FakeBus) -> None:
        self.folder = folder
        self.kube = kube
        self.bus = bus
        self.reader = FakeReader(a_reading(0), a_reading(1))
        self.clock: Clock = LoopClock()
        """Of its agents."""
        self.runtime: Runtime
        self.socket = folder / "nri.sock"
        self._runs: dict[str, tuple[PodSandbox, ContainerInfo]] = {}

    def state(self) -> tuple[list[PodSandbox], list[ContainerInfo]]:
        pods = {pod.id: pod for pod, _ in self._runs.values()}
        return list(pods.values()), [container for _, container in self._runs.values()]

    # -- the agent

    @asynccontextmanager
    async def agent(
        self, vendor: str = "nvidia", *, ready: bool = True, slots: int = 4, **more: Any
    ) -> AsyncGenerator[Agent]:
        """An agent until the block ends, which the runtime asks from the start where `ready`."""
        sections: dict[str, Any] = {
            "nri": NriSettings(socket=self.socket, keep_files_s=0.05),
            "keys": StoredKeySettings(namespace=SYSTEM),
            "health": HealthSettings(poll_s=0.02),
            "usage": UsageSettings(interval_s=0.05, publish_s=0.05),
            "events": EventSettings(per_second=1000),
            "inventory": InventorySettings(kubelet_folder=str(self.folder), slots=slots),
        }
        settings = AgentSettings(
            node=NODE, vendor=vendor, folder=str(self.folder / "agent"), **(sections | more)
        )
        world = ServiceEnvironment(
            kube=self.kube, bus=self.bus, settings=settings, clock=self.clock, registry=DIALECTS
        )  # fmt: skip
        async with open_agent(world, self.reader if vendor == "nvidia" else None) as agent:
            if ready:
                await until(lambda: not agent.problem() and bool(self.runtime.plugins))
            yield agent

    # -- containers

    async def create(
        self, pod: PodSandbox, name: str = "main", *, attempt: int = 0, **more: Any
    ) -> Adjustment:
        """Ask, as the runtime does before a container is there. Raises ContainerNotCreated."""
        container = ContainerInfo(
            id=f"{pod.id}-{name}-{attempt}", sandbox_id=pod.id, name=name, **more
        )
        given = await self.runtime.create_container(pod, container)
        self._runs[container.id] = pod, amended(container, given)
        return given

    async def start(
        self, pod: PodSandbox, name: str = "main", *, attempt: int = 0, pid: int = 0
    ) -> None:
        """Its process runs."""
        await self._notify(
            NriEvent.POST_START_CONTAINER, pod, name, attempt, NriContainerState.RUNNING, pid
        )

    async def run(self, pod: PodSandbox, name: str = "main", **more: Any) -> Adjustment:
        """Create and start."""
        given = await self.create(pod, name, **more)
        await self.start(pod, name, attempt=more.get("attempt", 0))
        return given

    async def stop(self, pod: PodSandbox, name: str = "main", *, attempt: int = 0) -> None:
        """Its process has ended."""
        id_ = f"{pod.id}-{name}-{attempt}"
        _, container = self._runs[id_]
        self._runs[id_] = pod, replace(container, state=NriContainerState.STOPPED, pid=0)
        await self.runtime.stop_container(*self._runs[id_])

    async def remove(self, pod: PodSandbox, name: str = "main", *, attempt: int = 0) -> None:
        """It is gone."""
        found = self._runs.pop(f"{pod.id}-{name}-{attempt}")
        await self.runtime.notify(NriEvent.REMOVE_CONTAINER, *found)

    async def end(self, pod: PodSandbox) -> None:
        """The pod is gone, with all its containers."""
        for id_, (owner, container) in list(self._runs.items()):
            if owner.id == pod.id:
                await self.stop(pod, container.name, attempt=int(id_.rpartition("-")[2]))
                await self.remove(pod, container.name, attempt=int(id_.rpartition("-")[2]))
        await self.runtime.notify(NriEvent.STOP_POD_SANDBOX, pod)
        await self.runtime.notify(NriEvent.REMOVE_POD_SANDBOX, pod)

    def slip_in(self, pod: PodSandbox, name: str = "main", **more: Any) -> None:
        """A container that was created without anybody being asked."""
        container = ContainerInfo(
            id=f"{pod.id}-{name}-0",
            sandbox_id=pod.id,
            name=name,
            state=NriContainerState.RUNNING,
            **more,
        )
        self._runs[container.id] = pod, container

    async def _notify(
        self,
        event: NriEvent,
        pod: PodSandbox,
        name: str,
        attempt: int,
        state: NriContainerState,
        pid: int,
    ) -> None:
        id_ = f"{pod.id}-{name}-{attempt}"
        _, container = self._runs[id_]
        self._runs[id_] = pod, replace(container, state=state, pid=pid)
        await self.runtime.notify(event, *self._runs[id_])

    # -- the API server

    async def publish_keys(self, *signers: Signer) -> None:
        """The scheduler publishes these keys."""
        data = dict(published_key(signer.public) for signer in signers or (SIGNER,))
        body = {"metadata": {"name": SIGNING_KEYS}, "data": data}
        path = paths.in_core(SYSTEM, "configmaps")
        await self.kube.call(Verb.POST, path, body=msgspec.json.encode(body))

    async def also_publish(self, signer: Signer) -> None:
        """The scheduler has one more key."""
        body = {"data": dict([published_key(signer.public)])}
        path = paths.in_core(SYSTEM, "configmaps", SIGNING_KEYS)
        await self.kube.call(
            Verb.PATCH, path, body=msgspec.json.encode(body), kind=Body.MERGE_PATCH
        )

    async def show_pod(self, name: str) -> str:
        """The API server shows a pod that is bound here; its uid there."""
        body = {
            "metadata": {"name": name},
            "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "i"}]},
        }
        path = paths.in_core("default", "pods")
        made = await self.kube.call(Verb.POST, path, body=msgspec.json.encode(body))
        return str(msgspec.json.decode(made)["metadata"]["uid"])

    async def annotate_pod(self, name: str, text: str) -> None:
        """The pod's grant annotation is written."""
        body = {"metadata": {"annotations": {GRANT_KEY: text}}}
        path = paths.pod("default", name)
        await self.kube.call(
            Verb.PATCH, path, body=msgspec.json.encode(body), kind=Body.MERGE_PATCH
        )

    async def drop_pod(self, name: str) -> None:
        """The pod is deleted by force: its containers may run on."""
        body = msgspec.json.encode({"gracePeriodSeconds": 0})
        await self.kube.call(Verb.DELETE, paths.pod("default", name), body=body)

    def events(self, reason: str) -> list[str]:
        """Messages of the events of that reason on pods and nodes."""
        response = self.kube.store.handle(Verb.GET, "/api/v1/events")
        found = msgspec.json.decode(response.body)["items"]
        return [event["message"] for event in found if event["reason"] == reason]


@asynccontextmanager
async def a_node(folder: Path, *, keys: bool = True) -> AsyncGenerator[Node]:
    """A node with two cards of 16 GiB, and no agent yet."""
    node = Node(folder, FakeKube(a_store(LoopClock())), FakeBus())
    for path, name in ((paths.NODES, NODE), ("/api/v1/namespaces", "team")):
        body = msgspec.json.encode({"metadata": {"name": name}})
        await node.kube.call(Verb.POST, path, body=body)
    if keys:
        await node.publish_keys()
    async with (
        asyncio.timeout(60),
        open_runtime(node.socket, RuntimeSettings(request_s=60), state=node.state) as node.runtime,
    ):
        yield node


async def until(true: Callable[[], object]) -> None:
    """Until something is so."""
    while not true():
        await asyncio.sleep(0.005)


async def looks(agent: Agent, count: int) -> None:
    """Until containers have been measured so often from now on."""
    seen: list[NodeUsage | None] = []
    while len(seen) <= count:
        if not seen or agent.measurement.latest is not seen[-1]:
            seen.append(agent.measurement.latest)
        await asyncio.sleep(0.005)


def metric(agent: Agent, line: str) -> float:
    """The sample whose name and labels these are."""
    for text in agent.metrics.text().decode().splitlines():
        if text.startswith(f"{line} "):
            return float(text.rpartition(" ")[2])
    return 0
