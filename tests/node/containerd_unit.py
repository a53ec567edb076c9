"""containerd on an island as the component `containerd` has it: a unit without systemd, a
configuration that an administrator wrote, and a Lease in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tessera_agent.containerd.agent_probe import open_probe
from tessera_agent.containerd.host import CommandFailed, ContainerdHost
from tessera_agent.containerd.node import ContainerdNode
from tessera_agent.containerd.node_files import StoredFiles, below
from tessera_agent.containerd.settings import DropInMode, DropInSettings
from tessera_agent.containerd.turn import NodeTurn
from tessera_core.node.containerd_config import ConfigPaths, ContainerdFiles, ContainerdRefused
from tessera_runtime import atomic_write
from tessera_runtime.clock import SystemClock
from tessera_runtime.kube.api import Verb
from tessera_runtime.kube.events import open_events
from tessera_testing.kube import FakeKube, a_store
from tests.node.agents import NODE
from tests.node.runtime import CONFIG, Containerd

LEASES = "/apis/coordination.k8s.io/v1/namespaces/tessera-system/leases"
LEASE = "tessera-containerd"


class IslandUnit:
    """`ContainerdUnit` for the containerd of an island."""

    def __init__(self, runtime: Containerd) -> None:
        self.restarts = 0
        self.broken = 0
        """How many of the next restarts leave nothing running."""
        self._runtime = runtime

    async def main_pid(self) -> int:
        """See `ContainerdUnit`."""
        if not self._runtime.process.running:
            raise ContainerdRefused("the unit does not run")
        return await asyncio.to_thread(lambda: self._runtime.process.pid)

    async def restart(self) -> None:
        """See `ContainerdUnit`."""
        self.restarts += 1
        async with asyncio.TaskGroup() as group:  # what a process does blocks for a moment
            again = group.create_task(self._restarted())
        if not again.result():
            raise CommandFailed("the unit entered a failed state")

    async def _restarted(self) -> bool:
        process = self._runtime.process
        if process.running:
            await process.stop()
        if self.broken:
            self.broken -= 1
            return False
        await process.start()
        await self._runtime.ready()
        return True


class Administered:
    """One node, its Lease and its files."""

    def __init__(
        self, runtime: Containerd, kube: FakeKube, agents: list[str], node: Callable[..., Any]
    ) -> None:
        self.unit = IslandUnit(runtime)
        self.agents = agents
        """Where agents say whether they are ready."""
        self.kube = kube
        folder = runtime.island.folder
        paths = ConfigPaths(config=str(folder / CONFIG), folder=str(folder / "etc/conf.d"))
        root = Path(f"/proc/{runtime.island.first}/root")
        self.files = StoredFiles(root, paths, str(folder / "state"))
        self.host = ContainerdHost(self.unit, root, paths.config, runtime.island.first)
        self._node = node

    def node(self, mode: DropInMode = DropInMode.WRITE, name: str = NODE) -> ContainerdNode:
        """The component as a process that has just been started."""
        made: ContainerdNode = self._node(self, mode, name)
        return made

    async def present(self) -> ContainerdFiles:
        """The node's two files."""
        return await asyncio.to_thread(self.files.read)

    def backup(self) -> bytes | None:
        """The copy of the administrator's file, if there is one."""
        path = below(self.files.root, self.files.paths.backup)
        return path.read_bytes() if path.exists() else None

    def put(self, name: str, text: str) -> None:
        """Another file in the folder of drop-ins."""
        atomic_write.replace(below(self.files.root, self.files.paths.folder) / name, text.encode())

    async def nri(self) -> dict[str, Any]:
        """What containerd reads of NRI's table."""
        found: dict[str, Any] = (await self.host.dump())["plugins"]["io.containerd.nri.v1.nri"]
        return found

    async def lease(self) -> dict[str, Any]:
        """The Lease."""
        found: dict[str, Any] = msgspec.json.decode(
            await self.kube.call(Verb.GET, f"{LEASES}/{LEASE}")
        )
        return found

    async def events(self) -> list[str]:
        """The reasons of the node's Events."""
        listed = await self.kube.call(Verb.GET, "/api/v1/namespaces/default/events")
        return [item["reason"] for item in msgspec.json.decode(listed)["items"]]


@asynccontextmanager
async def administered(runtime: Containerd) -> AsyncGenerator[Administered]:
    """A node whose containerd runs."""
    clock = SystemClock()
    kube = FakeKube(a_store(clock))
    namespace = msgspec.json.encode({"metadata": {"name": "tessera-system"}})
    await kube.call(Verb.POST, "/api/v1/namespaces", body=namespace)
    lease = {"metadata": {"name": LEASE, "namespace": "tessera-system"}, "spec": {}}
    await kube.call(Verb.POST, LEASES, body=msgspec.json.encode(lease))
    settings = DropInSettings(node=NODE, answer_s=5.0, settle_s=0.0)
    agents: list[str] = []
    async with (
        open_events(kube, settings.events, component=LEASE, clock=clock, node=NODE) as events,
        open_probe(agents) as probe,
    ):

        def node(of: Administered, mode: DropInMode, name: str) -> ContainerdNode:
            own = msgspec.structs.replace(settings, mode=mode, node=name)
            turn = NodeTurn(kube, own.namespace, own.lease, name, clock)
            return ContainerdNode(own, of.files, of.host, turn, probe, events)

        yield Administered(runtime, kube, agents, node)
