"""Marks members of Koordinator's gangs that did not start within their waiting time, as
Koordinator's scheduler does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tessera_core.gang_scheduling.attempt import WAITING, KnownBundle
from tessera_core.gang_status.koordinator import TIMEOUT
from tessera_core.gangs.gang import GangOrigin
from tessera_scheduler.gang_status.writes import StatusWrites
from tessera_schema.kube import Pod


class TimeoutMarks:
    """Writes the annotation, once a pod."""

    def __init__(self, writes: StatusWrites) -> None:
        """Nothing is written yet."""
        self._writes = writes
        self._marked: set[str] = set()

    async def write(self, bundles: Iterable[KnownBundle], now: float) -> None:
        """Mark the members that are due."""
        late = {pod.metadata.uid: pod for pod in _late(bundles, now)}
        self._marked &= late.keys()
        for uid, pod in late.items():
            if uid not in self._marked and await self._writes.mark(pod, TIMEOUT):
                self._marked.add(uid)


def _late(bundles: Iterable[KnownBundle], now: float) -> Iterator[Pod]:
    for known in bundles:
        if known.attempt.phase not in WAITING or known.attempt.started:
            continue
        for members in known.bundle.gangs:
            gang = members.gang
            if gang.origin is not GangOrigin.KOORDINATOR or gang.patience_s is None:
                continue
            if now - known.attempt.waits_since >= gang.patience_s:
                pods = (member.pod for member in members.waiting)
                yield from (pod for pod in pods if TIMEOUT not in pod.metadata.annotations)
