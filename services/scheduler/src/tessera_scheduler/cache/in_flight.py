"""Keeps the filter's starting pods (`tessera_core.scheduling.in_flight`) in step with the cluster.

Which pods are bound and have not started is read from the pods: after a restart it is known again
with the first list. A pod that takes too long is told of, as others may wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tessera_core.registry.plugin_requests import AllocatedResources
from tessera_core.scheduling.filter import Filter
from tessera_core.scheduling.in_flight import Overdue
from tessera_scheduler.alarms import Alert, AlertReason, Alerts
from tessera_scheduler.cache.pod_reader import PodSummary


class InFlightTracker:
    """Takes in what is seen of nodes and pods."""

    def __init__(
        self, filter_: Filter, alarms: Alerts, freed: Callable[[], None], *, longest_s: float
    ) -> None:
        """`freed` is told when pods may be placed that had to wait; a pod should start within
        `longest_s` seconds."""
        self._filter = filter_
        self._starting = filter_.starting
        self._alarms = alarms
        self._freed = freed
        self._longest_s = longest_s

    # -- nodes

    def nodes(self, allocated: Mapping[str, AllocatedResources], now: float) -> None:
        """All nodes."""
        for name in self._starting.nodes() - allocated.keys():
            self.node_gone(name)
        for name, how in allocated.items():
            self.node(name, how, now)

    def node(self, name: str, allocated: AllocatedResources, now: float) -> None:
        """How a node's containers get their cards."""
        if self._filter.put_node(name, allocated, now):
            self._freed()

    def node_gone(self, name: str) -> None:
        """A node is no more."""
        self._starting.remove_node(name)

    # -- pods

    def relisted(self, sights: Iterable[PodSummary], now: float) -> None:
        """All pods."""
        opened, uids = False, set()
        for sight in sights:
            if sight.start is not None:
                uids.add(sight.uid)
                opened |= self._see(sight, now)
        if self._starting.keep(frozenset(uids)) or opened:
            self._freed()

    def changed(self, sight: PodSummary, now: float) -> None:
        """One pod."""
        if sight.node and (self._see(sight, now) if sight.start else self._gone(sight.uid)):
            self._freed()

    def gone(self, uid: str) -> None:
        """A pod is no more."""
        if self._gone(uid):
            self._freed()

    def _gone(self, uid: str) -> bool:
        return self._starting.drop(uid)

    def _see(self, sight: PodSummary, now: float) -> bool:
        if sight.start is None:
            return False
        return self._starting.seen(
            sight.uid, f"{sight.namespace}/{sight.name}", sight.node, sight.start, now
        )

    # -- time

    def expire(self, now: float) -> None:
        """Tell of those that take too long."""
        for late in self._starting.expire(now, self._longest_s):
            self._tell(late)
            if late.let_go:
                self._freed()

    def _tell(self, late: Overdue) -> None:
        namespace, _, name = late.pod.partition("/")
        so = (
            "kubelet has admitted it, so that others no longer wait for it: should its cards be "
            "another's when it starts, the agent says so"
            if late.let_go
            else "kubelet has not reported it: others that ask for as much are not sent there"
        )
        text = f"has not started on {late.node} within {self._longest_s:g} s of its binding: {so}"
        self._alarms.raise_(
            Alert(
                wrong=AlertReason.NOT_STARTED, namespace=namespace, name=name, uid=late.uid,
                node=late.node, text=text,
            )
        )  # fmt: skip
