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
from tessera_core.slices import Slices, at_once
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
_MOST_REPLACED: Final = 16
"""Nodes that are replaced at once in filters that were just made, at about 1 ms each where there
are 10,000 of them."""


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


class _Changes(Struct, eq=False):
    """What changes while filters are made in slices."""

    relisted: bool = False
    nodes: dict[str, Node | None] = {}
    """None for one that is gone."""
    pods: list[tuple[_Runs, int]] = []
    """With 1 for one that runs from then on, -1 for one that does no more."""


class GangNodes:
    """Follows nodes, and what the pods on them request.

    Filters of all nodes take a second of processor time at 10,000 nodes with 100,000 pods. So they
    are made in slices, by `prepare`. Until it has made new ones, searches use the former filters;
    `version` changes with the new ones.
    """

    def __init__(self, managed: frozenset[str]) -> None:
        """`managed` are the resources of dialects, which the ledger counts."""
        self._managed = managed
        self._nodes: dict[str, Node] = {}
        self._runs: dict[str, _Runs] = {}
        self._shared = SharedValues()
        """What nodes have in common."""
        self._filters: KubeSchedulerFilters | None = None
        self._listed = 0
        """Grows with each node that changes."""
        self._shown = 0
        """What it was for the nodes that the filters have."""
        self._making: list[_Changes] = []
        """For each `prepare` that is not over."""
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
        for changes in self._making:
            changes.relisted = True
        self._listed += 1
        self.version += 1

    def on_event(self, change: WatchEventType, item: Node, now: float) -> None:
        """Take a node that was added, modified or deleted; a heartbeat changes nothing."""
        if change is WatchEventType.DELETED:
            self._nodes.pop(item.name, None)
            self._changed(item.name, None)
        elif self._nodes.get(item.name) != item:
            self._nodes[item.name] = item
            self._changed(item.name, item)

    def _changed(self, name: str, node: Node | None) -> None:
        for changes in self._making:
            changes.nodes[name] = node
        current = self._shown == self._listed
        replaced = node is not None and self._filters is not None and self._filters.replace(node)
        self._listed += 1
        self.version += 1
        if current and replaced:
            self._shown = self._listed

    # -- pods

    def hold(self, uid: str, node: str, host: Host, life: LifeSpan = UNSAID) -> None:
        """The pod runs on the node."""
        runs = _Runs(node, host, life)
        if self._runs.get(uid) != runs:
            self.release(uid)
            self._runs[uid] = runs
            self._count(runs, 1)

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
        self._count(runs, -1)

    def _count(self, runs: _Runs, sign: int) -> None:
        if self._filters is not None:
            _count(self._filters, runs, sign)
        for changes in self._making:
            changes.pods.append((runs, sign))

    def only(self, uids: Iterable[str]) -> None:
        """No other pods are left."""
        for uid in self._runs.keys() - set(uids):
            self.release(uid)

    # -- for a search

    def prepare(self) -> Slices[KubeSchedulerFilters]:
        """Make new filters if nodes were added or deleted. A slice is some nodes or pods. Nodes
        that are added or deleted between slices are in the filters of the next call."""
        if self._filters is not None and self._shown == self._listed:
            return self._filters
        listed, changes = self._listed, _Changes()
        self._making.append(changes)
        try:
            nodes = sorted(self._nodes.values(), key=lambda node: node.name)
            pods = list(self._runs.values())
            made = yield from KubeSchedulerFilters.in_slices(nodes, self._managed)
            for at, runs in enumerate(pods):
                if not at % _SLICE:
                    yield
                _count(made, runs, 1)
        finally:
            self._making.remove(changes)
        for runs, sign in changes.pods:
            _count(made, runs, sign)
        if _are_replaced(made, changes):
            listed = self._listed
        if self._filters is None or listed > self._shown:
            self.version += self._filters is not None
            self._filters, self._shown = made, listed
        return self._filters

    def filters(self) -> KubeSchedulerFilters:
        """The nodes as kube-scheduler sees them, as of the last `prepare`; a search copies it."""
        return at_once(self.prepare()) if self._filters is None else self._filters

    def copied_filters(self) -> Slices[KubeSchedulerFilters]:
        """A copy of what `prepare` makes, as it is at the end of the last slice."""
        found = yield from self.prepare()
        return found.scratch()

    def all(self) -> Iterable[Node]:
        """All nodes, with what they allow."""
        return self._nodes.values()

    def names(self) -> frozenset[str]:
        """The nodes that the filters have, and that are there."""
        return frozenset(self._nodes).intersection(self.filters().names)

    def domains(self, key: str) -> Mapping[str, set[str]]:
        """The same by their value of a label; those without it are in none."""
        found: dict[str, set[str]] = {}
        for name in self.names():
            value = self._nodes[name].metadata.labels.get(key)
            if value is not None:
                found.setdefault(value, set()).add(name)
        return found


def _count(filters: KubeSchedulerFilters, runs: _Runs, sign: int) -> None:
    count = filters.take if sign > 0 else filters.release
    count(runs.pod, runs.node)


def _are_replaced(made: KubeSchedulerFilters, changes: _Changes) -> bool:
    """Whether the filters have the nodes as they are after these changes."""
    if changes.relisted or len(changes.nodes) > _MOST_REPLACED:
        return False
    replaced = [node is not None and made.replace(node) for node in changes.nodes.values()]
    return all(replaced)
