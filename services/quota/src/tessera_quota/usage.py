"""What agents measure of containers: the newest of each node, and all GPU time since the start.

Throttling depends on it, so it counts as `tessera_core.reports` says: for containers that hold
shares on that node, as much as their cards have, and for no longer than time has passed.

Sums are kept up to date message by message, so an answer costs the same however many nodes report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from sys import intern
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from tessera_core.quota.status import Measured
from tessera_core.reports.agents import AgentReports
from tessera_core.reports.usage import GrantOf
from tessera_runtime.bus.api import Bus, Message
from tessera_schema import subjects
from tessera_schema.messages.device_reports import ContainerUse, NodeUsage

LONGEST_S: Final = 60.0
"""An interval that claims to be longer is not believed to be. An agent's intervals together may be
as much ahead of the time that has passed: what waited for NATS comes at once."""
_AT_ONCE: Final = 20
"""Messages received before other tasks on the loop run, when many wait: some milliseconds."""
_PARTS: Final = 1_000_000
"""Of a percent: what is added and taken away again is counted in whole numbers."""
AgentKey = tuple[str, str]
"""Node and vendor."""


class _Sum(NamedTuple):
    """What containers use."""

    containers: int = 0
    memory_bytes: int = 0
    cores_parts: int = 0
    """Of GPU time, in millionths of a percent of a card."""

    def plus(self, other: _Sum, sign: int = 1) -> _Sum:
        """The sum, or with sign -1 the difference."""
        return _Sum(*(a + sign * b for a, b in zip(self, other, strict=True)))

    @property
    def measured(self) -> Measured:
        """As statuses show it."""
        return Measured(self.memory_bytes, self.cores_parts / _PARTS)


_NOTHING: Final = _Sum()


class _Agent(Struct, eq=False):
    """What one agent measured."""

    key: AgentKey
    began: float
    """Loop time of its first report."""
    at: float
    """Loop time of its newest report."""
    counted_s: float = 0.0
    """Sum of the intervals that were believed."""
    use: Mapping[str, _Sum] = {}
    """Namespace -> what its newest report says of it."""
    pods: dict[str, float] = {}
    """Uid of each pod that its newest report measures -> Unix time of its last GPU time on these
    cards, 0 = never."""


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
        self._agents: dict[AgentKey, _Agent] = {}
        self._fresh: dict[AgentKey, _Agent] = {}
        """Those whose newest report counts, the oldest report first."""
        self._use: dict[str, dict[str, _Sum]] = {}
        """Namespace -> vendor -> what these reports add up to."""
        self._seconds: dict[str, dict[str, float]] = {}
        """Namespace -> vendor -> GPU time."""

    async def listen(self, bus: Bus, cluster: str) -> None:
        """Receive what every node reports, for ever."""
        async with bus.subscribe(subjects.usage(cluster, "*")) as messages:
            number = 0
            async for message in messages:
                self.receive(message)
                number += 1
                if not number % _AT_ONCE:
                    await asyncio.sleep(0)

    def receive(self, message: Message) -> None:
        """Count one message; repeats and late ones change nothing."""
        try:
            usage = self._reports.usage(message, self._grant_of)
        except msgspec.DecodeError:
            self.unreadable += 1
            return
        if usage is None:
            return
        agent, interval_s = self._interval(usage)
        self._count_out(agent)
        agent.use = _by_namespace(usage)
        self._count_in(agent)
        self._set_pods(agent, usage)
        for container in usage.containers:
            self._count(container, usage.vendor, interval_s)

    @property
    def namespaces(self) -> frozenset[str]:
        """Those in which something is measured now."""
        self._drop_stale()
        return frozenset(self._use)

    @property
    def pods(self) -> frozenset[str]:
        """Uids of the pods that the newest reports measure."""
        return frozenset(uid for agent in self._agents.values() for uid in agent.pods)

    def measured(self, namespace: str) -> dict[str, Measured]:
        """Vendor -> what is used now in a namespace."""
        self._drop_stale()
        return {vendor: each.measured for vendor, each in self._use.get(namespace, {}).items()}

    def gpu_seconds(self, namespace: str) -> Mapping[str, float]:
        """Vendor -> GPU time measured in a namespace since the start."""
        return self._seconds.get(namespace, {})

    def last_active(self, uid: str) -> float | None:
        """Unix time of a pod's last GPU time, 0 = never; None = it was not measured lately."""
        oldest, grant = self._now() - self._stale_s, self._grant_of(uid)
        if grant is None:
            return None
        keys = {(grant.node, share.vendor) for share in grant.shares}
        agents = [self._agents[key] for key in keys if key in self._agents]
        measuring = [agent for agent in agents if uid in agent.pods]
        if all(agent.at < oldest for agent in measuring):
            return None
        return max(agent.pods[uid] for agent in measuring)

    def forget(self) -> None:
        """Drop nodes that have been silent for long, and namespaces that are not measured any
        more."""
        oldest = self._now() - max(600.0, 2 * self._stale_s)
        for agent in [agent for agent in self._agents.values() if agent.at < oldest]:
            self._count_out(agent)
            del self._agents[agent.key]
            self._reports.silent(*agent.key)
        measured = {(name, a.key[1]) for a in self._agents.values() for name in a.use}
        for namespace, by_vendor in list(self._seconds.items()):
            for vendor in [each for each in by_vendor if (namespace, each) not in measured]:
                del by_vendor[vendor]
            if not by_vendor:
                del self._seconds[namespace]

    def _interval(self, usage: NodeUsage) -> tuple[_Agent, float]:
        """The agent, and the seconds that its report is believed to cover."""
        now, key = self._now(), (usage.node, usage.vendor)
        agent = self._agents.get(key)
        if agent is None:
            agent = self._agents[key] = _Agent(key, now, now)
        agent.at = now
        passed_s = now - agent.began + LONGEST_S - agent.counted_s
        interval_s = min(usage.interval_s, LONGEST_S, max(passed_s, 0))
        agent.counted_s += interval_s
        return agent, interval_s

    def _count(self, container: ContainerUse, vendor: str, interval_s: float) -> None:
        by_vendor = self._seconds.setdefault(container.namespace, {})
        busy = sum(card.cores_percent for card in container.cards)
        by_vendor[vendor] = by_vendor.get(vendor, 0) + busy / 100 * interval_s

    # -- what is used now

    def _drop_stale(self) -> None:
        """Take out the reports that count no more: each is looked at once."""
        oldest = self._now() - self._stale_s
        while self._fresh:
            agent = next(iter(self._fresh.values()))
            if agent.at >= oldest:
                return
            self._count_out(agent)

    def _count_in(self, agent: _Agent) -> None:
        self._fresh[agent.key] = agent
        for namespace, use in agent.use.items():
            by_vendor = self._use.setdefault(namespace, {})
            by_vendor[agent.key[1]] = by_vendor.get(agent.key[1], _NOTHING).plus(use)

    def _count_out(self, agent: _Agent) -> None:
        if self._fresh.pop(agent.key, None) is None:
            return
        for namespace, use in agent.use.items():
            left = self._use[namespace][agent.key[1]].plus(use, -1)
            if left.containers:
                self._use[namespace][agent.key[1]] = left
            else:
                del self._use[namespace][agent.key[1]]
                if not self._use[namespace]:
                    del self._use[namespace]

    def _set_pods(self, agent: _Agent, usage: NodeUsage) -> None:
        """The agent measures these pods, and no others any more. A pod's last GPU time is never
        taken back, nor is it later than the report."""
        pods: dict[str, float] = {}
        for container in usage.containers:
            active = pods.get(container.uid, agent.pods.get(container.uid, 0.0))
            for card in container.cards:
                active = max(active, usage.at if card.cores_percent else card.last_active)
            pods[intern(container.uid)] = min(active, usage.at)
        agent.pods = pods


def _by_namespace(usage: NodeUsage) -> dict[str, _Sum]:
    found: dict[str, _Sum] = {}
    for container in usage.containers:
        cores, memory = 0.0, 0
        for card in container.cards:
            cores += card.cores_percent
            memory += card.memory_bytes
        before = found.get(container.namespace, _NOTHING)
        found[intern(container.namespace)] = _Sum(
            before.containers + 1,
            before.memory_bytes + memory,
            before.cores_parts + round(cores * _PARTS),
        )
    return found
