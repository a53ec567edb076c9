"""Keeps the pods in flight (`tessera_core.scheduling.in_flight`) in step with the cluster.

Which pods are bound and have not started is read from the pods: after a restart it is known again
with the first list. A pod that takes too long raises an alert, as others may wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tessera_core.registry.plugin_requests import AllocatedResources
from tessera_core.scheduling.filter import Filter
from tessera_core.scheduling.in_flight import InFlightPods, Overdue
from tessera_scheduler.alerts import Alert, AlertReason, Alerts
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.cache.pod_reader import PodSummary


class InFlightTracker:
    """Takes what is observed of nodes and pods."""

    def __init__(
        self,
        *,
        filter_: Filter,
        in_flight: InFlightPods,
        alerts: Alerts,
        pod_events: PodEvents,
        longest_s: float,
    ) -> None:
        """`in_flight` is the filter's; a pod should start within `longest_s` seconds. That pods may
        be placed that had to wait is published as `freed`."""
        self._filter = filter_
        self._in_flight = in_flight
        self._alerts = alerts
        self._pod_events = pod_events
        self._longest_s = longest_s

    def on_node_list(self, allocated: Mapping[str, AllocatedResources], now: float) -> None:
        """Take how the containers of all nodes get their cards."""
        for name in self._in_flight.nodes() - allocated.keys():
            self.on_node_gone(name)
        for name, how in allocated.items():
            self.on_node(name, how, now)

    def on_node(self, name: str, allocated: AllocatedResources, now: float) -> None:
        """Take how a node's containers get their cards."""
        if self._filter.put_node(name, allocated, now):
            self._pod_events.freed.publish()

    def on_node_gone(self, name: str) -> None:
        """Drop a node that is gone."""
        self._in_flight.remove_node(name)

    def keep(self, summaries: Iterable[PodSummary]) -> None:
        """Of the pods that are bound and have not started only those of a list are left."""
        if self._in_flight.keep(frozenset(s.uid for s in summaries if s.start is not None)):
            self._pod_events.freed.publish()

    def on_update(self, summary: PodSummary, now: float) -> None:
        """Take a pod that was added or modified."""
        if not summary.node:
            return
        opened = self._observe(summary, now) if summary.start else self._in_flight.drop(summary.uid)
        if opened:
            self._pod_events.freed.publish()

    def on_delete(self, uid: str) -> None:
        """Drop a pod that is gone."""
        if self._in_flight.drop(uid):
            self._pod_events.freed.publish()

    def _observe(self, summary: PodSummary, now: float) -> bool:
        if summary.start is None:
            return False
        name = f"{summary.namespace}/{summary.name}"
        return self._in_flight.observe(summary.uid, name, summary.node, summary.start, now)

    def expire(self, now: float) -> None:
        """Raise alerts for pods that take too long."""
        for late in self._in_flight.expire(now, self._longest_s):
            self._alert(late)
            if late.let_go:
                self._pod_events.freed.publish()

    def _alert(self, late: Overdue) -> None:
        namespace, _, name = late.pod.partition("/")
        so = (
            "kubelet has admitted it, so that others no longer wait for it: should its cards be "
            "another's when it starts, the agent says so"
            if late.let_go
            else "kubelet has not reported it: others that ask for as much are not sent there"
        )
        text = f"has not started on {late.node} within {self._longest_s:g} s of its binding: {so}"
        self._alerts.raise_(
            Alert(
                wrong=AlertReason.NOT_STARTED, namespace=namespace, name=name, uid=late.uid,
                node=late.node, text=text,
            )
        )  # fmt: skip
