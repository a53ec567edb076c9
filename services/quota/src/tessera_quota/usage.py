"""What agents measure of containers: the newest of each node, and all GPU time since the start.

Throttling depends on it, so it counts as `tessera_core.reports` says: for containers that hold
shares on that node, as much as their cards have, and for no longer than time has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.quota.status import Measured
from tessera_core.reports.agents import AgentReports, ReceivedReport
from tessera_core.reports.usage import GrantOf
from tessera_runtime.bus.api import Bus, Message
from tessera_schema import subjects
from tessera_schema.messages.device_reports import ContainerUse, NodeUsage

LONGEST_S: Final = 60.0
"""An interval that claims to be longer is not believed to be. An agent's intervals together may be
as much ahead of the time that has passed: what waited for NATS comes at once."""
Key = tuple[str, str]
"""Namespace and vendor."""


class _Agent(Struct):
    """What one agent measured."""

    began: float
    """Loop time of its first report."""
    at: float
    """Loop time of its newest report."""
    usage: NodeUsage
    counted_s: float = 0.0
    """Sum of the intervals that were believed."""


class UsageListener:
    """Receives usage reports, and answers what was measured."""

    def __init__(
        self, reports: AgentReports, grant_of: GrantOf, now: Callable[[], float], stale_s: float
    ) -> None:
        """`now` is the loop's time; what is older than `stale_s` counts no more."""
        self.unreadable = 0
        """Messages that could not be decoded."""
        self._reports = reports
        self._grant_of = grant_of
        self._now = now
        self._stale_s = stale_s
        self._agents: dict[tuple[str, str], _Agent] = {}
        self._pods: dict[str, dict[str, float]] = {}
        self._seconds: dict[Key, float] = {}

    async def listen(self, bus: Bus, cluster: str) -> None:
        """Receive what every node reports, for ever."""
        async with bus.subscribe(subjects.usage(cluster, "*")) as messages:
            async for message in messages:
                self.receive(message)

    def receive(self, message: Message) -> None:
        """Count one message; repeats and late ones change nothing."""
        report = ReceivedReport(
            subject=message.subject, envelope=message.envelope, data=message.data
        )
        try:
            usage = self._reports.usage(report, self._grant_of)
        except msgspec.DecodeError:
            self.unreadable += 1
            return
        if usage is None:
            return
        interval_s = self._interval(usage)
        for container in usage.containers:
            self._count(container, usage, interval_s)

    def gpu_seconds(self, namespaces: Iterable[str], vendor: str) -> float:
        """GPU time measured since the start; an empty vendor is all of them."""
        return sum(
            self._seconds[key] for key in self._seconds
            if key[0] in namespaces and vendor in ("", key[1])
        )  # fmt: skip

    def measured(self) -> dict[Key, Measured]:
        """What is used now, by namespace and vendor."""
        found: dict[Key, Measured] = {}
        for usage in self._fresh():
            for container in usage.containers:
                key = container.namespace, usage.vendor
                memory, cores = found.get(key, Measured())
                memory += sum(card.memory_bytes for card in container.cards)
                cores += sum(card.cores_percent for card in container.cards)
                found[key] = Measured(memory, cores)
        return found

    def last_active(self) -> dict[str, float]:
        """Pod uid -> Unix time of its last GPU time, 0 = never, of pods measured lately."""
        return {
            container.uid: max(self._pods.get(container.uid, {}).values(), default=0)
            for usage in self._fresh()
            for container in usage.containers
        }

    def forget(self) -> None:
        """Drop nodes that have been silent for long, and pods and namespaces that are not
        measured any more."""
        now = self._now()
        for key, agent in list(self._agents.items()):
            if now - agent.at > max(600.0, 2 * self._stale_s):
                del self._agents[key]
                self._reports.silent(*key)
        uses = [(c, a.usage.vendor) for a in self._agents.values() for c in a.usage.containers]
        for uid in self._pods.keys() - {container.uid for container, _ in uses}:
            del self._pods[uid]
        for of in self._seconds.keys() - {(container.namespace, of) for container, of in uses}:
            del self._seconds[of]

    def _fresh(self) -> Iterable[NodeUsage]:
        now = self._now()
        return [a.usage for a in self._agents.values() if now - a.at <= self._stale_s]

    def _interval(self, usage: NodeUsage) -> float:
        """The seconds that the report is believed to cover."""
        now, key = self._now(), (usage.node, usage.vendor)
        agent = self._agents.setdefault(key, _Agent(now, now, usage))
        agent.at, agent.usage = now, usage
        passed_s = now - agent.began + LONGEST_S - agent.counted_s
        interval_s = min(usage.interval_s, LONGEST_S, max(passed_s, 0))
        agent.counted_s += interval_s
        return interval_s

    def _count(self, container: ContainerUse, usage: NodeUsage, interval_s: float) -> None:
        key = container.namespace, usage.vendor
        busy = sum(card.cores_percent for card in container.cards)
        self._seconds[key] = self._seconds.get(key, 0) + busy / 100 * interval_s
        active = max((card.last_active for card in container.cards), default=0.0)
        if busy:
            active = max(active, usage.at)
        self._pods.setdefault(container.uid, {})[container.container] = min(active, usage.at)
