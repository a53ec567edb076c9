"""A node whose runtime asks nobody: kubelet gives the cards, through the agent's device plugin."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tessera_agent.agent import Agent
from tessera_agent.api.grant_keys import StoredKeySettings
from tessera_agent.delivery.settings import CardDelivery
from tessera_agent.device_plugin.settings import PluginSettings
from tessera_agent.devices.settings import HealthSettings, InventorySettings
from tessera_agent.nri_plugin.settings import NriSettings
from tessera_agent.settings import AgentSettings
from tessera_agent.startup import open_agent
from tessera_agent.usage.settings import UsageSettings
from tessera_core.inventory.extended_resources import allocated_names
from tessera_core.registry import registry
from tessera_core.trust.grants import published_key
from tessera_embedded.kubelet.kubelet import FakeKubelet, open_kubelet
from tessera_kubelet.device_plugin.types import ContainerAllocation
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Verb
from tessera_runtime.kube.settings import EventSettings
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.annotation_keys import SIGNING_KEYS
from tessera_schema.grants import GRANT_KEY, Grant, Share
from tessera_testing.bus import FakeBus
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store
from tessera_testing.readers import FakeReader, a_reading
from tests.agent.nri.runtime_node import NODE, SIGNER, SYSTEM, signed, until

TEAM = "team"
GPU = "nvidia.com/gpu"
ONE = {GPU: 1}
DIALECTS = registry.load({"volcano": {"gpu_memory_factor": 1024}})
"""Few ids of memory."""
NAMES = allocated_names(DIALECTS, "nvidia")

Containers = Mapping[str, Mapping[str, int]]
"""By container, what it asks for."""


class Node:
    """Kubelet, the API server, and who is on the node."""

    def __init__(self, folder: Path, kube: FakeKube, bus: FakeBus, kubelet: FakeKubelet) -> None:
        self.folder = folder
        self.kube = kube
        self.bus = bus
        self.kubelet = kubelet
        self.reader = FakeReader(a_reading(0), a_reading(1))
        self.uids: dict[str, str] = {}
        self._asks: dict[str, Containers] = {}

    @property
    def allocations(self) -> Path:
        """What the agent records."""
        return self.folder / "agent" / "allocations-nvidia.json"

    @asynccontextmanager
    async def agent(self, *, ready: bool = True, **more: Any) -> AsyncGenerator[Agent]:
        """An agent until the block ends, which kubelet asks from the start where `ready`."""
        sections: dict[str, Any] = {
            "vendor": "nvidia",
            "giving": CardDelivery.ALLOCATE,
            "plugin": PluginSettings(wait_s=30, look_s=0.02),
            "nri": NriSettings(keep_files_s=0.05),
            "keys": StoredKeySettings(namespace=SYSTEM),
            "health": HealthSettings(poll_s=0.05),
            "usage": UsageSettings(
                interval_s=0.05, publish_s=0.05, proc_folder=str(self.folder / "proc")
            ),
            "events": EventSettings(per_second=1000),
            "inventory": InventorySettings(kubelet_folder=str(self.folder), slots=4),
        }
        settings = AgentSettings(node=NODE, folder=str(self.folder / "agent"), **(sections | more))
        world = ServiceEnvironment(
            kube=self.kube, bus=self.bus, settings=settings, clock=LoopClock(), registry=DIALECTS
        )  # fmt: skip
        async with open_agent(world, self.reader) as agent:
            if ready:
                await until(lambda: not agent.problem() and agent.pods.listed)
                await self.kubelet.until(lambda: all(map(self._is_offered, NAMES)))
            yield agent

    def _is_offered(self, resource: str) -> bool:
        return any(device.healthy for device in self.kubelet.devices(resource))

    # -- pods

    async def bind(
        self, name: str, *shares: Share, asks: Containers | None = None, first: Sequence[str] = (),
        grant: bool | str = True, env: Mapping[str, str | None] | None = None, **more: Any,
    ) -> str:  # fmt: skip
        """A pod that our scheduler gave these shares; its uid. Containers named in `first` are init
        containers; variables without a value have it from a ConfigMap."""
        asks = asks or {"main": ONE}
        self._asks[name] = asks

        def containers(those: list[str]) -> list[dict[str, Any]]:
            return [
                {
                    "name": container, "image": "i",
                    "resources": {"limits": {n: str(v) for n, v in asks[container].items()}},
                    "env": [_variable(n, v) for n, v in (env or {}).items()],
                }
                for container in those
            ]  # fmt: skip

        body = {
            "metadata": {"name": name, "namespace": TEAM},
            "spec": {
                "containers": containers([c for c in asks if c not in first]),
                "initContainers": containers(list(first)),
            },
        }
        path = paths.in_core(TEAM, "pods")
        made = msgspec.json.decode(
            await self.kube.call(Verb.POST, path, body=msgspec.json.encode(body))
        )
        uid = self.uids[name] = made["metadata"]["uid"]
        text = grant if isinstance(grant, str) else signed(self.granted(name, *shares, **more))
        notes = {GRANT_KEY: text} if grant else {}
        binding = {
            "metadata": {"name": name, "uid": uid, "annotations": notes},
            "target": {"kind": "Node", "name": NODE},
        }
        await self.kube.call(
            Verb.POST, paths.pod(TEAM, name, "binding"), body=msgspec.json.encode(binding)
        )
        return str(uid)

    def granted(self, name: str, *shares: Share, **more: Any) -> Grant:
        """What the scheduler decided for the pod."""
        grant = Grant(uid=self.uids[name], namespace=TEAM, name=name, node=NODE, shares=shares)
        return replace(grant, **more)

    async def admit(self, name: str) -> Mapping[str, ContainerAllocation]:
        """Kubelet admits the pod; what each container gets. Raises NotAdmitted."""
        return await self.kubelet.pods.admit(TEAM, name, self._asks[name])

    async def start(self, name: str, container: str = "main") -> None:
        """Kubelet asks whether a container may start. Raises ContainerRefused."""
        await self.kubelet.pods.start(TEAM, name, container)

    async def run(self, name: str) -> Mapping[str, ContainerAllocation]:
        """Admit it, start all of its containers, and show that they run."""
        given = await self.admit(name)
        for container in self._asks[name]:
            await self.start(name, container)
        await self.show(name, {container: running(name, container) for container in given})
        return given

    async def show(
        self, name: str, states: Mapping[str, Mapping[str, Any]], phase: str = "Running",
        kind: str = "containerStatuses",
    ) -> None:  # fmt: skip
        """The API server shows the pod's containers so."""
        statuses = [
            {"name": container, "image": "i", "imageID": "", "ready": True, "restartCount": 0}
            | dict(state)
            for container, state in states.items()
        ]  # fmt: skip
        body = msgspec.json.encode({"status": {"phase": phase, kind: statuses}})
        path = paths.pod(TEAM, name, "status")
        await self.kube.call(Verb.PATCH, path, body=body, kind=Body.MERGE_PATCH)

    async def end(self, name: str, phase: str = "Succeeded") -> None:
        """The pod has ended, and kubelet knows."""
        self.kubelet.pods.ended(TEAM, name)
        await self.show(name, {}, phase)

    async def drop(self, name: str) -> None:
        """The pod is deleted by force."""
        body = msgspec.json.encode({"gracePeriodSeconds": 0})
        await self.kube.call(Verb.DELETE, paths.pod(TEAM, name), body=body)

    def has_process(self, pid: int, container: str, *, ended: bool = False) -> None:
        """A process of the container runs on the node, or does not any more."""
        path = self.folder / "proc" / str(pid) / "cgroup"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if ended else f"0::/kubepods/pod1/{container}\n")

    def events(self, reason: str) -> list[str]:
        """Messages of the events of that reason."""
        response = self.kube.store.handle(Verb.GET, "/api/v1/events")
        found = msgspec.json.decode(response.body)["items"]
        return [event["message"] for event in found if event["reason"] == reason]


def _variable(name: str, value: str | None) -> dict[str, Any]:
    if value is not None:
        return {"name": name, "value": value}
    return {"name": name, "valueFrom": {"configMapKeyRef": {"name": "map", "key": "key"}}}


def container_id(name: str, container: str = "main", attempt: int = 0) -> str:
    """64 digits, as runtimes make them."""
    return f"{name}-{container}-{attempt}".encode().hex().ljust(64, "0")[:64]


def running(name: str, container: str = "main", attempt: int = 0) -> dict[str, Any]:
    """The status of a container that runs."""
    id_ = f"containerd://{container_id(name, container, attempt)}"
    return {"containerID": id_, "state": {"running": {}}}


def ended(name: str, container: str = "main", attempt: int = 0) -> dict[str, Any]:
    """The status of one that has ended."""
    id_ = f"containerd://{container_id(name, container, attempt)}"
    return {"containerID": id_, "state": {"terminated": {"exitCode": 0, "containerID": id_}}}


@asynccontextmanager
async def a_node(folder: Path) -> AsyncGenerator[Node]:
    """A node with two cards of 16 GiB, and no agent yet."""
    for name in ("device-plugins", "pod-resources", "proc"):
        (folder / name).mkdir()
    kube = FakeKube(a_store(LoopClock()))
    for path, name in ((paths.NODES, NODE), ("/api/v1/namespaces", TEAM)):
        body = msgspec.json.encode({"metadata": {"name": name}})
        await kube.call(Verb.POST, path, body=body)
    keys = {"metadata": {"name": SIGNING_KEYS}, "data": dict([published_key(SIGNER.public)])}
    path = paths.in_core(SYSTEM, "configmaps")
    await kube.call(Verb.POST, path, body=msgspec.json.encode(keys))
    async with (
        asyncio.timeout(60),
        open_kubelet(
            folder / "device-plugins", pod_resources=folder / "pod-resources" / "kubelet.sock"
        ) as kubelet,
    ):
        yield Node(folder, kube, FakeBus(), kubelet)
