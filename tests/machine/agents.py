"""A node's agent as a process that renews its Lease: it can be killed, started again, cut off from
the API server, unable to give cards, and have a clock that is off."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from tessera_runtime.kube import paths
from tessera_runtime.kube.heartbeat import Heartbeat, HeartbeatSettings, agent_lease_name
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube
from tests.machine.cluster import VENDOR, Cluster
from tests.machine.truth import CALL_S
from tests.scheduler.fake_cluster import AGENT_LEASES

HEARTBEAT: Final = HeartbeatSettings(namespace=AGENT_LEASES)
LEASES: Final = paths.in_group("coordination.k8s.io", "v1", "leases", namespace=AGENT_LEASES)


class Agent:
    """As far as it shows that it is there; the heartbeat is the real one."""

    def __init__(self, node: str, cluster: Cluster, group: asyncio.TaskGroup) -> None:
        """It does not run yet."""
        self.able = True
        """Whether it can give containers their cards."""
        self.clock = LoopClock(cluster.loop)
        self._node = node
        self._cluster = cluster
        self._group = group
        self._line = FakeKube(cluster.store, call_s=CALL_S)
        self._task: asyncio.Task[None] | None = None

    @property
    def works(self) -> bool:
        """Whether containers get cards from it."""
        return self._task is not None and self.able

    def start(self) -> None:
        """A new process; nothing where one runs."""
        if self._task is None:
            self._task = self._group.create_task(self._live(), name=f"agent of {self._node}")

    def kill(self) -> None:
        """As by SIGKILL."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def cut(self) -> None:
        """Its way to the API server ends."""
        self._line.pause()

    def mend(self) -> None:
        """It runs, and nothing is in its way but its clock."""
        self.able = True
        self._line.resume()
        self.start()

    def forget(self) -> None:
        """Somebody deletes its Lease."""
        self._cluster.call("DELETE", f"{LEASES}/{agent_lease_name(VENDOR, self._node)}")

    async def _live(self) -> None:
        heartbeat = Heartbeat(
            self._line, HEARTBEAT, lease=agent_lease_name(VENDOR, self._node),
            identity=self._node, clock=self.clock, owner=lambda: None,
            random=Random(self._node),  # noqa: S311  (makes a run repeatable)
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            group.create_task(self._announce(heartbeat), name=f"announcement of {self._node}")
            await heartbeat.run(lambda: self.able)

    async def _announce(self, heartbeat: Heartbeat) -> None:
        await heartbeat.announced.wait()
        self._cluster.announce(self._node, HEARTBEAT.lasts_s)
