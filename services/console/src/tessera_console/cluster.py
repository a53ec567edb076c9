"""The cluster in memory: nodes, pods, quotas and plans as the API server has them, and what agents
report on the bus. It holds as much as the cluster has, and an hour of use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, NoReturn, TypeVar

from tessera_console.event_log import KINDS, EventLog
from tessera_console.history import UseRecord, points_of
from tessera_console.objects import KnownObjects, PlanView, QuotaView, read_plan, read_quota
from tessera_console.settings import ConsoleSettings
from tessera_core.occupancy.rows import NodeRow
from tessera_runtime.background import running_in_background
from tessera_runtime.informers.cluster_feed import (
    ClusterFeed,
    NodeFeed,
    PodFeed,
    receive_states,
    receive_usage,
)
from tessera_runtime.informers.installed_kinds import ACCELERATOR_QUOTAS, watch_when_installed
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import Handler, ListWatch, Reflector
from tessera_runtime.service import ServiceEnvironment
from tessera_schema import subjects
from tessera_schema.plans import PLANS

T = TypeVar("T")

_SETTLE_S: Final = 0.1
_AT_ONCE: Final = 60
"""Reports that are counted in `_SETTLE_S`: 600 a second, of 1,000 nodes that report every two."""
_BUS_LOOK_S: Final = 1.0


class ConsoleCluster:
    """Everything that is shown, to all callers together."""

    def __init__(self, environment: ServiceEnvironment[ConsoleSettings]) -> None:
        """Use `open_cluster`."""
        settings = environment.settings
        self.feed = ClusterFeed(environment.registry)
        self.feed.serves(settings.bus.cluster)
        self.quotas: KnownObjects[QuotaView] = KnownObjects()
        self.plans: KnownObjects[PlanView] = KnownObjects()
        self.events = EventLog(settings.history.events, self._name_of)
        self.history = UseRecord(settings.history.points, settings.history.series)
        self.ready = asyncio.Event()
        """Set once nodes and pods were read."""
        self.bus_since = 0.0
        """Unix time since which the bus has been connected, or not."""
        self._environment = environment
        self._connected: bool | None = None
        feed = self.feed
        self._nodes = self._reflector(ListWatch(paths.NODES, feed.node), NodeFeed(feed))
        self._pods = self._reflector(
            ListWatch(paths.PODS, feed.pod, {"fieldSelector": paths.LIVING}), PodFeed(feed)
        )

    def rows(self) -> list[NodeRow]:
        """All nodes with cards, by name; a node that has not changed is the same object."""
        return self.feed.occupancy.rows()

    def namespaces(self) -> set[str]:
        """Those that have pods with cards, pods that wait for some, or quotas."""
        found = {
            share.namespace
            for row in self.rows() for card in row.cards for share in card.shares
        }  # fmt: skip
        found |= {row.namespace for row in self.feed.occupancy.waiting()}
        return found | {item.metadata.namespace for item in self.quotas.known.values()}

    def problem(self) -> str:
        """Why nothing is shown; empty when something is."""
        return "" if self.ready.is_set() else "nodes and pods have not been read yet"

    def problems(self) -> list[str]:
        """What is wrong with what is shown, a sentence each."""
        now, silence_s = self._now(), self._environment.settings.kube.silence_s
        found = [
            f"The API server has said nothing about {what} for {now - reader.alive_at:.0f} s: "
            "what is shown of them is as old."
            for what, reader in (("nodes", self._nodes), ("pods", self._pods))
            if now - reader.alive_at > silence_s and self.ready.is_set()
        ]
        if self._connected is False:
            found.append(
                "The message bus does not answer: use is not known, and events are missing. "
                "`kubectl -n tessera-system get pods -l app.kubernetes.io/name=tessera-nats` "
                "shows its pods."
            )
        return found

    @property
    def connected(self) -> bool:
        """Whether the bus answers."""
        return bool(self._connected)

    async def run(self) -> None:
        """Follow everything, until cancelled."""
        cluster, bus = self._environment.settings.bus.cluster, self._environment.bus
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run(), name="node watcher")
            await self._nodes.synced.wait()
            group.create_task(self._pods.run(), name="pod watcher")
            await self._pods.synced.wait()
            self.ready.set()
            quotas = self._reflector(ListWatch(ACCELERATOR_QUOTAS, read_quota), self.quotas)
            plans = self._reflector(ListWatch(PLANS, read_plan), self.plans)
            group.create_task(self._when_installed(quotas), name="quota watcher")
            group.create_task(self._when_installed(plans), name="plan watcher")
            group.create_task(receive_states(bus, self.feed), name="device states")
            group.create_task(receive_usage(bus, cluster, self.feed), name="usage")
            for kind in KINDS:
                subject = f"{subjects.ROOT}.{cluster}.{kind}.>"
                group.create_task(self._log(subject), name=f"events of {kind}")
            group.create_task(self._settle(), name="reports")
            group.create_task(self._remember(), name="history")
            group.create_task(self._watch_bus(), name="bus")

    async def _when_installed(self, reflector: Reflector[T]) -> NoReturn:
        environment = self._environment
        look_s, settled = environment.settings.look_s, asyncio.Event()
        await watch_when_installed(environment.kube, reflector, look_s, settled)

    async def _log(self, subject: str) -> None:
        async with self._environment.bus.subscribe(subject) as messages:
            async for message in messages:
                self.events.take(message)

    async def _settle(self) -> NoReturn:
        while True:
            self.feed.settle(_AT_ONCE)
            self.feed.occupancy.expire(self._now())
            await asyncio.sleep(_SETTLE_S)

    async def _remember(self) -> NoReturn:
        while True:
            await asyncio.sleep(self._environment.settings.history.every_s)
            self.history.add(self._environment.clock.time(), points_of(self.rows()))

    async def _watch_bus(self) -> NoReturn:
        while True:
            connected = self._environment.bus.connected
            if connected is not self._connected:
                self._connected = connected
                self.bus_since = self._environment.clock.time()
            await asyncio.sleep(_BUS_LOOK_S)

    def _name_of(self, uid: str) -> str:
        occupancy = self.feed.occupancy
        grant = occupancy.grant_of(uid)
        if grant is not None:
            return grant.name
        return next((row.name for row in occupancy.waiting() if row.uid == uid), "")

    def _reflector(self, watched: ListWatch[T], handler: Handler[T]) -> Reflector[T]:
        environment = self._environment
        return Reflector(environment.kube, watched, handler, settings=environment.settings.kube)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


@asynccontextmanager
async def open_cluster(
    environment: ServiceEnvironment[ConsoleSettings],
) -> AsyncGenerator[ConsoleCluster]:
    """The cluster, followed until left."""
    cluster = ConsoleCluster(environment)
    async with running_in_background(cluster.run(), "cluster"):
        yield cluster
