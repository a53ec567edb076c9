"""What hosts have left of processor and memory, by what the pods on them request.

It only helps `pack` to choose: whether a pod fits on its host is kube-scheduler's to say. Nodes of
which nothing is known are taken to have enough of both, and what is not readable counts as nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np

from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.host_requests import NOTHING, Host
from tessera_core.placement.packing.free_capacity import HostColumns


class HostCapacity:
    """Follows nodes and all pods that are bound to them, with cards or without."""

    def __init__(self) -> None:
        """Knows of no node."""
        self._totals: dict[str, Host] = {}
        self._used: dict[str, Host] = {}
        self._pods: dict[str, tuple[str, Host]] = {}
        """Uid -> node, and what is held there."""
        self._changed: set[str] = set()
        self._layout: tuple[int, int] | None = None
        self._columns = np.zeros((4, 0))

    # -- reported by the follower of the cluster

    def node(self, name: str, total: Host | None) -> None:
        """The node has so much for pods; None = it is not known, or gone."""
        if self._totals.get(name) != total:
            self._changed.add(name)
            if total is None:
                del self._totals[name]
            else:
                self._totals[name] = total

    def nodes(self, totals: Mapping[str, Host | None]) -> None:
        """These are all nodes."""
        for name in self._totals.keys() - totals.keys():
            self.node(name, None)
        for name, total in totals.items():
            self.node(name, total)

    def hold(self, uid: str, node: str, host: Host) -> None:
        """The pod runs on the node, or is about to; reported again, it replaces what was
        reported."""
        if self._pods.get(uid) == (node, host):
            return
        self.release(uid)
        self._pods[uid] = (node, host)
        self._add(node, host, 1)

    def release(self, uid: str) -> None:
        """The pod has ended; nothing happens where it is not known."""
        held = self._pods.pop(uid, None)
        if held is not None:
            self._add(*held, -1)

    def of_pod(self, uid: str) -> Host:
        """What the pod holds; nothing where it is not known."""
        return self._pods.get(uid, ("", NOTHING))[1]

    def only(self, uids: Set[str]) -> None:
        """No other pods are left."""
        for uid in [uid for uid in self._pods if uid not in uids]:
            self.release(uid)

    # -- asked by placement

    def columns(self, fleet: Fleet) -> HostColumns | None:
        """Over the fleet's rows; they change with the next call. None while no node is known."""
        if not self._totals:
            return None
        layout = (id(fleet), fleet.layout)
        if self._layout != layout:
            self._layout, self._columns = layout, np.zeros((4, len(fleet.names)))
            self._columns[:2], self._columns[2:] = np.inf, 1
            self._changed = set(self._totals)
        for name in self._changed:
            row = fleet.rows.get(name)
            if row is not None:
                self._columns[:, row] = self._of(name)
        self._changed.clear()
        return HostColumns(*self._columns)

    def _of(self, name: str) -> tuple[float, float, float, float]:
        total, used = self._totals.get(name), self._used.get(name, NOTHING)
        if total is None:
            return np.inf, np.inf, 1, 1
        cpu, memory = total.cpu_milli - used.cpu_milli, total.memory_bytes - used.memory_bytes
        return max(cpu, 0), max(memory, 0), total.cpu_milli, total.memory_bytes

    def _add(self, node: str, host: Host, sign: int) -> None:
        had = self._used.get(node, NOTHING)
        now = Host(
            had.cpu_milli + sign * host.cpu_milli, had.memory_bytes + sign * host.memory_bytes
        )
        if now == NOTHING:
            self._used.pop(node, None)
        else:
            self._used[node] = now
        self._changed.add(node)
