"""The nodes as a gang's search needs them: what kube-scheduler would refuse, and what is left of
processor and memory.

Kept only where gangs start whole, by a watch of its own: nobody else needs labels and taints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.kube.host_requests import Host
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.shadows.expected_ends import UNSAID, LifeSpan, PodLifetime
from tessera_core.shared_values import SharedValues
from tessera_core.slices import Slices
from tessera_runtime.kube.reflector import WatchEventType
from tessera_schema.json_codec import decoder
from tessera_schema.kube import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Quantity,
    Resources,
)

_decode = decoder(Node)
_SLICE: Final = 64
"""Pods of one slice."""


class _Runs(Struct, frozen=True, gc=False):
    node: str
    host: Host
    life: LifeSpan

    @property
    def pod(self) -> Pod:
        """A pod that requests as much."""
        asked: dict[str, Quantity] = {
            "cpu": f"{self.host.cpu_milli}m",
            "memory": str(self.host.memory_bytes),
        }
        return Pod(
            spec=PodSpec(containers=(Container(name="c", resources=Resources(requests=asked)),))
        )


class GangNodes:
    """Follows nodes, and what the pods on them request."""

    def __init__(self, managed: frozenset[str]) -> None:
        """`managed` are the resources of dialects, which the ledger counts."""
        self._managed = managed
        self._nodes: dict[str, Node] = {}
        self._runs: dict[str, _Runs] = {}
        self._shared = SharedValues()
        """What nodes have in common."""
        self._filters: KubeSchedulerFilters | None = None
        self._listed = 0
        """Changes with each node that changes."""
        self.version = 0
        """Changes whenever nodes may take what they did not."""

    # -- nodes

    def read(self, raw: bytes | msgspec.Raw) -> Node:
        """What of a node counts here. Raises msgspec.DecodeError."""
        node = _decode(bytes(raw))
        amounts = node.status.allocatable or node.status.capacity
        return Node(
            metadata=ObjectMeta(
                name=intern(node.metadata.name),
                labels={intern(k): intern(v) for k, v in node.metadata.labels.items()},
            ),
            spec=self._shared.one(node.spec),
            status=self._shared.one(NodeStatus(allocatable=amounts)),
        )

    def on_list(self, items: list[Node], started: float, now: float) -> None:
        """Take all nodes."""
        self._nodes = {node.name: node for node in items}
        self._forget()

    def on_event(self, change: WatchEventType, item: Node, now: float) -> None:
        """Take a node that was added, modified or deleted; a heartbeat changes nothing."""
        if change is WatchEventType.DELETED:
            self._nodes.pop(item.name, None)
        elif self._nodes.get(item.name) == item:
            return
        else:
            self._nodes[item.name] = item
            if self._filters is not None and self._filters.replace(item):
                self._changed()
                return
        self._forget()

    def _forget(self) -> None:
        self._filters = None
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._listed += 1

    # -- pods

    def hold(self, uid: str, node: str, host: Host, life: LifeSpan = UNSAID) -> None:
        """The pod runs on the node."""
        runs = _Runs(node, host, life)
        if self._runs.get(uid) != runs:
            self.release(uid)
            self._runs[uid] = runs
            if self._filters is not None:
                self._filters.take(runs.pod, node)

    def lifetimes(self) -> Slices[list[PodLifetime]]:
        """All pods that run, with what they request of their hosts; a slice is some of them."""
        found: list[PodLifetime] = []
        for at, (uid, runs) in enumerate(list(self._runs.items())):
            if not at % _SLICE:
                yield
            spec = replace(runs.pod.spec, node_name=runs.node)
            pod = Pod(metadata=ObjectMeta(uid=uid), spec=spec)
            found.append(PodLifetime(pod, runs.life.since, runs.life.lasts_s, runs.life.owner))
        return found

    def release(self, uid: str) -> None:
        """The pod has ended; nothing happens where it is not known."""
        runs = self._runs.pop(uid, None)
        if runs is None:
            return
        self.version += 1
        if self._filters is not None:
            self._filters.release(runs.pod, runs.node)

    def only(self, uids: Iterable[str]) -> None:
        """No other pods are left."""
        for uid in self._runs.keys() - set(uids):
            self.release(uid)

    # -- for a search

    def prepare(self) -> Slices[None]:
        """Make in slices what `filters` would make at once, where nodes have come or gone."""
        if self._filters is None:
            yield from self.copied_filters()

    def filters(self) -> KubeSchedulerFilters:
        """The nodes as kube-scheduler sees them; a search copies it."""
        if self._filters is None:
            nodes = sorted(self._nodes.values(), key=lambda node: node.name)
            self._filters = KubeSchedulerFilters(nodes, (), self._managed)
            for runs in self._runs.values():
                self._filters.take(runs.pod, runs.node)
        return self._filters

    def copied_filters(self) -> Slices[KubeSchedulerFilters]:
        """A copy of the same, as it is at the end of the last slice; a slice is some nodes or
        pods. Nodes that change meanwhile are as they were at the beginning."""
        if self._filters is not None:
            return self._filters.scratch()
        listed, runs = self._listed, dict(self._runs)
        nodes = sorted(self._nodes.values(), key=lambda node: node.name)
        made = yield from KubeSchedulerFilters.in_slices(nodes, self._managed)
        for at, each in enumerate(runs.values()):
            if not at % _SLICE:
                yield
            made.take(each.pod, each.node)
        changed = runs.items() ^ self._runs.items()
        for uid, each in changed:
            count = made.take if self._runs.get(uid) == each else made.release
            count(each.pod, each.node)
        if listed == self._listed and self._filters is None:
            self._filters = made
            return made.scratch()
        return made

    def all(self) -> Iterable[Node]:
        """All nodes, with what they allow."""
        return self._nodes.values()

    def names(self) -> frozenset[str]:
        """All nodes."""
        return frozenset(self._nodes)

    def domains(self, key: str) -> Mapping[str, set[str]]:
        """The nodes by their value of a label; those without it are in none."""
        found: dict[str, set[str]] = {}
        for node in self._nodes.values():
            value = node.metadata.labels.get(key)
            if value is not None:
                found.setdefault(value, set()).add(node.name)
        return found
