"""Room that is made for waiting pods, read from the pods
(`tessera_core.scheduling.node_reservations`).

The plan's annotation and kube-scheduler's nomination are the truth: whoever leads after us reads
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tessera_core.scheduling.node_reservations import NodeReservations
from tessera_runtime import logs
from tessera_scheduler.cache.pod_reader import PodSummary

_log = logs.named("tessera.scheduler.reservations")


class Reservations:
    """Keeps the filter's reserved nodes in step with the pods."""

    def __init__(self, reserved: NodeReservations, freed: Callable[[], None]) -> None:
        """`freed` is told when nodes open again."""
        self._reserved = reserved
        self._freed = freed

    def relisted(self, sights: Iterable[PodSummary], now: float) -> None:
        """All pods."""
        held = {s.uid: s.reserved for s in sights if s.reserved is not None}
        opened = self._reserved.keep(frozenset(held))
        for one in held.values():
            self._reserved.put(one, now)
        if opened:
            self._freed()

    def changed(self, sight: PodSummary, now: float) -> None:
        """One pod."""
        held, before = sight.reserved, len(self._reserved)
        if held is None:
            self.gone(sight.uid)
        elif self._reserved.put(held, now):
            if len(self._reserved) <= before:  # another node opens
                self._freed()
            _log.info(
                "room is made", pod=held.pod, node=held.node, plan=held.plan,
                nominated=held.nominated,
            )  # fmt: skip

    def gone(self, uid: str) -> None:
        """A pod is no more, or is bound."""
        if self._reserved.drop(uid):
            self._freed()

    def expire(self, now: float) -> None:
        """Open the nodes whose time is over."""
        if self._reserved.expire(now):
            self._freed()
