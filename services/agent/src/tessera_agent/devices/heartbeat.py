"""The agent's sign of life: a Lease that it renews while it can give containers their cards.

The node's annotation announces the Lease once it was renewed, and never before: of an agent whose
role does not let it write the Lease nothing is expected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.heartbeat import Heartbeat, HeartbeatSettings, agent_lease_name
from tessera_runtime.kube.lease_object import OwnerReference

_log: Final = logs.named("tessera.agent.heartbeat")


class AgentHeartbeat:
    """Renews the Lease of one vendor's agent on one node, and announces it."""

    def __init__(
        self,
        kube: Kube,
        settings: HeartbeatSettings,
        node: str,
        vendor: str,
        annotation: CardsAnnotationWriter,
        clock: Clock,
    ) -> None:
        """Nothing is written before `run`."""
        self._annotation = annotation
        self._lasts_s = settings.lasts_s
        self._name = agent_lease_name(vendor, node)
        self._heartbeat = Heartbeat(
            kube,
            settings,
            lease=self._name,
            identity=node,
            clock=clock,
            owner=self._owner,
        )

    async def run(self, problem: Callable[[], str]) -> NoReturn:
        """Renew the Lease while there is no `problem`, until cancelled."""
        if not self._name:
            _log.warning("no lease: the node's name is too long for one")
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._announce(), name="announce the lease")
            await self._heartbeat.run(lambda: not problem())
        raise AssertionError("heartbeats never end")

    async def _announce(self) -> NoReturn:
        while True:
            await self._heartbeat.resumed.wait()
            self._heartbeat.resumed.clear()
            self._annotation.announce(self._lasts_s, self._heartbeat.since_s)

    def _owner(self) -> OwnerReference | None:
        """The Node: its Leases are deleted with it."""
        node = self._annotation.node
        if node is None:
            return None
        return OwnerReference("v1", "Node", node.name, node.metadata.uid)
