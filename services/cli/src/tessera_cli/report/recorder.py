"""`tessera report --record`: writes digests of usage messages into a file, from now on.

Which messages count is what every service goes by (`tessera_core.reports`): those that a node's
agent signed, of pods that hold shares there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from tessera_cli.report.holders import ClusterHolders, GrantedPod, published_cards
from tessera_core.registry.registry import DialectRegistry
from tessera_core.reports.agents import AgentReports, voices_of
from tessera_core.reports.doubts import Doubt
from tessera_core.utilization.digests import DigestBuilder, Holder
from tessera_core.utilization.recording import HolderPod, encode_line
from tessera_runtime.bus.api import Message
from tessera_schema.grants import Grant


class UsageRecorder:
    """What is being recorded; it reads no clock and opens nothing."""

    def __init__(
        self, registry: DialectRegistry, cluster: str, write: Callable[[bytes], object],
        began: float,
    ) -> None:  # fmt: skip
        """`cluster` is the bus's; `write` takes whole lines; `began` is Unix time."""
        self.digests = 0
        """Lines of use that were written."""
        self.messages = 0
        """That counted."""
        self.doubts: Counter[Doubt] = Counter()
        """Why reports, or parts of them, did not count."""
        self._write = write
        self._builder = DigestBuilder(began)
        self._cluster = ClusterHolders()
        self._ended: dict[str, tuple[GrantedPod, float]] = {}
        """Pods that are gone since the last digests, and when that was noticed."""
        self._written: dict[str, HolderPod] = {}
        self._reports = AgentReports(cluster, registry.vendors, self._doubted)

    def update(self, cluster: ClusterHolders, now: float) -> None:
        """What the API server has now."""
        for uid, pod in self._cluster.pods.items():
            if uid not in cluster.pods:
                self._ended[uid] = pod, now
        self._cluster = cluster
        for uid, pod in cluster.pods.items():
            if self._written.get(uid) != pod.holder:
                self._written[uid] = pod.holder
                self._write(encode_line(pod.holder))
        for node in cluster.nodes:
            self._reports.know(node.metadata.name, published_cards(node), voices_of(node))

    def receive(self, message: Message) -> None:
        """Count one usage message."""
        try:
            usage = self._reports.usage(message, self._grant_of)
        except msgspec.DecodeError:
            return  # it is counted as a doubt
        if usage is not None:
            self.messages += 1
            self._builder.add(usage)

    def cut(self, now: float) -> None:
        """Write the digests of the period that ends now."""
        holders = {
            uid: Holder(grant=pod.grant, since=pod.holder.started)
            for uid, pod in self._cluster.pods.items()
        }
        for uid, (pod, ended) in self._ended.items():
            holders[uid] = Holder(grant=pod.grant, since=pod.holder.started, until=ended)
            self._written.pop(uid, None)
        self._ended = {}
        for digest in self._builder.cut(now, holders, self._cluster.cards):
            self.digests += 1
            self._write(encode_line(digest))

    def _grant_of(self, uid: str) -> Grant | None:
        pod = self._cluster.pods.get(uid)
        if pod is None and uid in self._ended:
            pod = self._ended[uid][0]
        return None if pod is None else replace(pod.grant, given={})

    def _doubted(self, _node: str, doubt: Doubt, _what: str) -> None:
        self.doubts[doubt] += 1
