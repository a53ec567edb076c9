"""Room that is made for waiting pods, read from the pods
(`tessera_core.scheduling.node_reservations`).

The plan's annotation and kube-scheduler's nomination are the truth: the next leader reads the
same.
"""

from __future__ import annotations

from collections.abc import Iterable

from tessera_core.scheduling.node_reservations import NodeReservations
from tessera_runtime import logs
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.cache.pod_reader import PodSummary

_log = logs.named("tessera.scheduler.reservations")


class Reservations:
    """Keeps the node reservations in step with the pods."""

    def __init__(self, node_reservations: NodeReservations, pod_events: PodEvents) -> None:
        """Nodes that open again are published as `freed`."""
        self._reserved = node_reservations
        self._pod_events = pod_events

    def on_list(self, summaries: Iterable[PodSummary], now: float) -> None:
        """Take the reservations of all pods."""
        held = {s.uid: s.reserved for s in summaries if s.reserved is not None}
        opened = self._reserved.keep(frozenset(held))
        for one in held.values():
            self._reserved.put(one, now)
        if opened:
            self._pod_events.freed.publish()

    def on_update(self, summary: PodSummary, now: float) -> None:
        """Take the reservation of a pod that was added or modified."""
        held, before = summary.reserved, len(self._reserved)
        if held is None:
            self.on_delete(summary.uid)
        elif self._reserved.put(held, now):
            if len(self._reserved) <= before:  # another node opens
                self._pod_events.freed.publish()
            _log.info(
                "room is made", pod=held.pod, node=held.node, plan=held.plan,
                nominated=held.nominated,
            )  # fmt: skip

    def on_delete(self, uid: str) -> None:
        """Drop the reservation of a pod that is gone, or bound."""
        if self._reserved.drop(uid):
            self._pod_events.freed.publish()

    def expire(self, now: float) -> None:
        """Open the nodes whose time is over."""
        if self._reserved.expire(now):
            self._pod_events.freed.publish()
