"""Writes a grant again on a live pod that lost it, or carries another one than it has.

The ledger never lets go of it; the agent and the next scheduler, which read the pod, need it there.
A user that overwrites it again and again is answered at most once in several seconds. Events lag
behind the API server, so that a pod counts as changed only when it is read from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tessera_runtime import logs
from tessera_runtime.errors import ApiConflict, ApiNotFound
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_runtime.kube.patches import annotate
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.alerts import Alert, AlertReason, Alerts
from tessera_scheduler.binding.grant_annotations import GrantAnnotations, Unwritable
from tessera_scheduler.cache.pod_reader import PodReader
from tessera_scheduler.leadership.leader import Leadership
from tessera_scheduler.metrics import SchedulerMetrics

REMEMBERED: Final = 10_000

_log = logs.named("tessera.scheduler.restoring")


class GrantRestorer:
    """Restores grants; only the replica that holds the Lease does."""

    def __init__(
        self,
        *,
        kube: Kube,
        leadership: Leadership,
        pod_reader: PodReader,
        annotations: GrantAnnotations,
        alerts: Alerts,
        metrics: SchedulerMetrics,
        clock: MonotonicClock,
        every_s: float,
    ) -> None:
        """A pod's grant is written at most once in `every_s` seconds."""
        self._kube = kube
        self._leadership = leadership
        self._pod_reader = pod_reader
        self._annotations = annotations
        self._alerts = alerts
        self._metrics = metrics
        self._clock = clock
        self._every_s = every_s
        self._last: dict[str, float] = {}

    async def restore(self, name: PodKey) -> bool:
        """True when there is nothing left to do. Raises ApiRefused and Transient."""
        now = self._clock.time()
        if not self._leadership.holds:
            return True  # the holder of the Lease has observed it too
        if now - self._last.get(name.uid, now - self._every_s) < self._every_s:
            return False
        pod = await read_back(self._kube, name)
        grant = None if pod is None else self._pod_reader.missing_grant(pod)
        if pod is None or grant is None:
            return True
        if self._pod_reader.summarize(pod).grant is not None:
            self._raise_changed(name, grant.node)
        try:
            written = self._annotations.whole(pod, grant)
        except Unwritable as e:
            _log.warning("grant not restored", pod=f"{name.namespace}/{name.name}", why=str(e))
            return False
        return await self._write(name, written)

    def _raise_changed(self, name: PodKey, node: str) -> None:
        self._alerts.raise_(
            Alert(
                wrong=AlertReason.CHANGED,
                namespace=name.namespace,
                name=name.name,
                uid=name.uid,
                node=node,
                text="carries another grant than it was given",
            )
        )

    async def _write(self, name: PodKey, written: Mapping[str, str]) -> bool:
        self._last.pop(name.uid, None)
        self._last[name.uid] = self._clock.time()
        if len(self._last) > REMEMBERED:
            del self._last[next(iter(self._last))]
        try:
            await annotate(self._kube, paths.pod(name.namespace, name.name), written, uid=name.uid)
        except (ApiConflict, ApiNotFound):
            self._metrics.restored.labels("gone").inc()
            return True
        self._metrics.restored.labels("done").inc()
        _log.info("grant restored", pod=f"{name.namespace}/{name.name}", uid=name.uid)
        return True
