"""Agents' reports on their cards: the nodes' cards, the ledger and the audit take what counts of
each, and drop it when the agent does not repeat it."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import msgspec

from tessera_core.reports.agents import AgentReports
from tessera_runtime.bus.api import Bus, Message
from tessera_runtime.metrics import Counter
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.cache.agent_reports import AgentReportAudit
from tessera_scheduler.cache.nodes import NodeCache
from tessera_scheduler.cache.outlived import OutlivedContainers
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_schema.subjects import DEVICES_BUCKET


class DeviceStates:
    """Passes the reports of agents on to all that count them."""

    def __init__(
        self,
        *,
        reports: AgentReports,
        nodes: NodeCache,
        outlived: OutlivedContainers,
        agent_audit: AgentReportAudit,
        unreadable: Counter,
    ) -> None:
        """`nodes` lets `reports` know what each node shows."""
        self._reports = reports
        self._nodes = nodes
        self._outlived = outlived
        self._agent_audit = agent_audit
        self._unreadable = unreadable

    def receive(self, message: Message, now: float, *, audited: bool) -> bool:
        """Take one message; True when cards became free. It is `audited` once all pods were
        read."""
        try:
            state = self._reports.state(message)
        except msgspec.DecodeError:
            self._unreadable.inc()
            return False
        if state is None:
            return False
        freed = self._outlived.on_device_state(state, now)
        if audited:
            self._agent_audit.on_device_state(state, now)
        return self._nodes.on_device_state(state, now) or freed

    def expire(self, now: float) -> bool:
        """Drop what no agent repeated; True when cards became free."""
        self._agent_audit.expire(now)
        freed = self._outlived.expire(now)
        return self._nodes.expire(now) or freed

    def on_node_gone(self, node: str) -> None:
        """Drop what was reported of a node that is gone."""
        self._outlived.node_gone(node)


class DeviceStateListener:
    """Receives the reports from the bus."""

    def __init__(
        self, bus: Bus, states: DeviceStates, clock: MonotonicClock, pod_events: PodEvents
    ) -> None:
        """Cards that become free are published as `freed`."""
        self._bus = bus
        self._states = states
        self._clock = clock
        self._pod_events = pod_events

    async def run(self, nodes_read: asyncio.Event, pods_read: asyncio.Event) -> NoReturn:
        """Receive, until cancelled, once the nodes were read: they show which agents report."""
        await nodes_read.wait()
        async with self._bus.watch(DEVICES_BUCKET) as items:
            async for item in items:
                if isinstance(item, Message) and self._states.receive(
                    item, self._clock.time(), audited=pods_read.is_set()
                ):
                    self._pod_events.freed.publish()
        raise AssertionError("watches never end")
