"""What agents say that containers use: the newest of each node, and GPU time in all since we began.

Containers write it, so nobody trusts it for more than reports: no grant depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from tessera_core.quota_status import Measured
from tessera_runtime import logs
from tessera_runtime.bus.api import Bus, News
from tessera_runtime.bus.latest import Latest
from tessera_schema import subjects
from tessera_schema.telling import ContainerUse, NodeUsage, decode_usage

_log: Final = logs.named("tessera.quota.usage")
_LONGEST_S: Final = 60.0
"""An interval that claims to be longer is not believed to be."""
Key = tuple[str, str]
"""Namespace and vendor."""


class Usage:
    """What was measured."""

    def __init__(self, now: Callable[[], float], stale_s: float) -> None:
        """`now` is the loop's time; what is older than `stale_s` counts no more."""
        self.unreadable = 0
        """Messages that made no sense."""
        self._now = now
        self._stale_s = stale_s
        self._latest: Latest[NodeUsage] = Latest()
        self._nodes: dict[tuple[str, str], tuple[float, NodeUsage]] = {}
        self._pods: dict[str, dict[str, float]] = {}
        self._seconds: dict[Key, float] = {}

    async def listen(self, bus: Bus, cluster: str) -> None:
        """Take in what every node tells, for ever."""
        async with bus.news(subjects.usage(cluster, "*")) as told:
            async for news in told:
                self.take(news)

    def take(self, news: News) -> None:
        """One message; repeats and late ones change nothing."""
        try:
            usage = decode_usage(news.data)
        except msgspec.DecodeError as e:
            self.unreadable += 1
            _log.warning("usage not readable", subject=news.subject, why=str(e))
            return
        if not self._latest.offer(f"{usage.node}/{usage.vendor}", news.envelope, usage):
            return
        self._nodes[usage.node, usage.vendor] = self._now(), usage
        interval_s = min(max(usage.interval_s, 0), _LONGEST_S)
        for container in usage.containers:
            self._count(container, usage, interval_s)

    def gpu_seconds(self, namespaces: Iterable[str], vendor: str) -> float:
        """GPU time measured since we began; an empty vendor is all of them."""
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
        """Pod uid -> Unix time of its last GPU time, 0 = never, of pods heard of lately."""
        return {
            container.uid: max(self._pods.get(container.uid, {}).values(), default=0)
            for usage in self._fresh()
            for container in usage.containers
        }

    def forget(self) -> None:
        """Drop nodes that have been silent for long, and the pods that nobody tells of any more."""
        now = self._now()
        for key, (at, _) in list(self._nodes.items()):
            if now - at > max(600.0, 2 * self._stale_s):
                del self._nodes[key]
                self._latest.forget("/".join(key))
        told = {c.uid for _, usage in self._nodes.values() for c in usage.containers}
        for uid in self._pods.keys() - told:
            del self._pods[uid]

    def _fresh(self) -> Iterable[NodeUsage]:
        now = self._now()
        return [usage for at, usage in self._nodes.values() if now - at <= self._stale_s]

    def _count(self, container: ContainerUse, usage: NodeUsage, interval_s: float) -> None:
        key = container.namespace, usage.vendor
        busy = sum(max(card.cores_percent, 0) for card in container.cards)
        self._seconds[key] = self._seconds.get(key, 0) + busy / 100 * interval_s
        active = max((card.last_active for card in container.cards), default=0.0)
        if busy:
            active = max(active, usage.at)
        self._pods.setdefault(container.uid, {})[container.container] = min(active, usage.at)
