"""States of cards as agents report them: what counts of each goes to the nodes' cards, to the books
and to the audit, and is let go of when nobody repeats it."""

from __future__ import annotations

import msgspec

from tessera_core.reports.agents import AgentReports, ReceivedReport
from tessera_runtime.bus.api import Message
from tessera_runtime.metrics import Counter
from tessera_scheduler.cache.agent_reports import AgentReportAudit
from tessera_scheduler.cache.nodes import NodeCache
from tessera_scheduler.cache.outlived import OutlivedContainers


class DeviceStates:
    """Takes in."""

    def __init__(
        self,
        reports: AgentReports,
        nodes: NodeCache,
        outlived: OutlivedContainers,
        agents: AgentReportAudit,
        unreadable: Counter,
    ) -> None:
        """`nodes` lets `reports` know what each node shows."""
        self._reports = reports
        self._nodes = nodes
        self._outlived = outlived
        self._agents = agents
        self._unreadable = unreadable

    def take(self, news: Message, now: float, *, audited: bool) -> bool:
        """One message; True when cards became free. It is `audited` once all pods were read."""
        message = ReceivedReport(subject=news.subject, envelope=news.envelope, data=news.data)
        try:
            state = self._reports.state(message)
        except msgspec.DecodeError:
            self._unreadable.inc()
            return False
        if state is None:
            return False
        freed = self._outlived.on_device_state(state, now)
        if audited:
            self._agents.on_device_state(state, now)
        return self._nodes.on_device_state(state, now) or freed

    def expire(self, now: float) -> bool:
        """Let go of what nobody repeated; True when cards became free."""
        self._agents.expire(now)
        freed = self._outlived.expire(now)
        return self._nodes.expire(now) or freed

    def node_gone(self, node: str) -> None:
        """The API server shows the node no more."""
        self._outlived.node_gone(node)
