"""Everything that runs: one loop on virtual time, driven from outside: `do` is a step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from tessera_runtime.bus.outbox import open_outbox
from tessera_scheduler.settings import SchedulerSettings
from tessera_testing.stoppable import StoppableLoop
from tests.machine.agents import Agent
from tests.machine.cluster import SETTINGS, Cluster
from tests.machine.nodes import Node
from tests.machine.placing import Placing
from tests.machine.replicas import Replica

T = TypeVar("T")


class Replicas:
    """A cluster and schedulers that work on it. `close` it."""

    cluster: Cluster

    def __init__(self, loop: StoppableLoop, settings: SchedulerSettings) -> None:
        """All runs when it returns; no scheduler is started yet."""
        self.loop = loop
        self.replicas: list[Replica] = []
        self._settings = settings
        self._born = 0
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self._life = self.loop.create_task(self._live(), name="life")
        self.do(self._ready.wait())

    async def _live(self) -> None:
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            self._group = group
            await self._open(stack, group)
            self._ready.set()
            await self._over.wait()
            self._end()
            for replica in self.replicas:
                await replica.bury()

    async def _open(self, stack: AsyncExitStack, group: asyncio.TaskGroup) -> None:
        """Start who else works on the cluster."""

    def _end(self) -> None:
        """End them."""

    # -- from outside

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        """Do something; whatever crashed meanwhile is raised."""
        result = self.loop.run_until_complete(what)
        if self._life.done():
            self._life.result()
        return result

    def close(self) -> None:
        """End everything."""
        try:
            self._over.set()
            self.loop.run_until_complete(self._life)
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    # -- time

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def until(self, what: str, is_so: Callable[[], object], within_s: float) -> None:
        """Let time pass until something is so. Fails where it never is."""
        until = self.loop.time() + within_s
        while not is_so():
            assert self.loop.time() < until, f"not within {within_s:g} s: {what}"
            assert not self._life.done(), "something crashed"
            await asyncio.sleep(0.2)

    # -- schedulers

    def start(self) -> Replica:
        """One more scheduler."""
        self._born += 1
        name = f"scheduler {self._born}"
        replica = Replica(self.cluster, self._group, name, self._born, self._settings)
        self.replicas.append(replica)
        return replica

    @property
    def alive(self) -> list[Replica]:
        """Those that run or are stopped."""
        return [replica for replica in self.replicas if replica.alive]

    @property
    def leader(self) -> Replica | None:
        """Who answers; there is never more than one."""
        leaders = [replica for replica in self.replicas if replica.leads]
        assert len(leaders) <= 1, f"{[r.name for r in leaders]} lead at once"
        return leaders[0] if leaders else None


class Simulation(Replicas):
    """The same with nodes on which kubelet and agents work, and kube-scheduler call by call."""

    def __init__(
        self, *, nodes: int, cards: int, replicas: int, allocating: bool = False,
        fenced: bool = True,
    ) -> None:  # fmt: skip
        loop = StoppableLoop()
        self.cluster = Cluster(loop, nodes, cards, allocating=allocating, fenced=fenced)
        self.nodes: dict[str, Node] = {}
        super().__init__(loop, SETTINGS)
        for _ in range(replicas):
            self.start()

    async def _open(self, stack: AsyncExitStack, group: asyncio.TaskGroup) -> None:
        for name in self.cluster.cards:
            outbox = await stack.enter_async_context(
                open_outbox(self.cluster.bus, self.cluster.clock, "agent", name)
            )
            agent = Agent(name, self.cluster, group)
            agent.start()
            self.nodes[name] = Node(name, self.cluster, outbox, agent)
        self.placing = Placing(self.cluster, group)

    def _end(self) -> None:
        for node in self.nodes.values():
            node.agent.kill()
