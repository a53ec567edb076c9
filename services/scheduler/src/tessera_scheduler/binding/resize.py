"""Live resizes: a bound pod that carries a request (`tessera_schema.resizes`) gets its next grant.

The ledger is changed first and holds enough for the old and the new grant until it is known which
of them the pod carries. `tessera_scheduler.binding.resize_patches` writes the new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tessera_core.dialect_kit.contract import Vendor
from tessera_core.grants.resize import resized
from tessera_core.ledger.ledger import Ledger
from tessera_runtime import logs
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.events import EventRecorder, of_pod
from tessera_runtime.tracing import tracing
from tessera_scheduler.binding.grant_annotations import Unwritable
from tessera_scheduler.binding.quorum_read import PodReadState, QuorumReader
from tessera_scheduler.binding.resize_patches import ResizePatches
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.cache.pod_reader import PodReader
from tessera_scheduler.events import trace_of
from tessera_scheduler.leadership.leader import Leadership
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import Pod
from tessera_schema.resizes import RESIZE_KEY, decode_resize

_log: Final = logs.named("tessera.scheduler.resizing")


class ResizeReports:
    """Reports what became of resizes: as an event on the pod, a metric and a log line."""

    def __init__(
        self, metrics: SchedulerMetrics, recorder: EventRecorder, pod_events: PodEvents
    ) -> None:
        """`pod_events` learn that something may have become free."""
        self._metrics = metrics
        self._recorder = recorder
        self._pod_events = pod_events

    def done(self, name: PodKey, old: Grant, new: Grant) -> None:
        """The pod carries the new grant."""
        pairs = zip(old.shares, new.shares, strict=True)
        words = "; ".join(_change(a, b) for a, b in pairs if a != b)
        self._metrics.resizes.labels("done").inc()
        self._pod_events.freed.publish()
        self._recorder.record(of_pod(name), "Resized", words)
        _log.info("resized", pod=f"{name.namespace}/{name.name}", uid=name.uid, what=words)

    def refused(self, name: PodKey, why: str) -> None:
        """The pod keeps its grant."""
        self._metrics.resizes.labels("refused").inc()
        self._recorder.record(of_pod(name), "ResizeRefused", why)
        _log.info("resize refused", pod=f"{name.namespace}/{name.name}", why=why)


class Resizer:
    """Answers the requests of bound pods; only the replica that holds the Lease does."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        leadership: Leadership,
        quorum_reader: QuorumReader,
        pod_reader: PodReader,
        vendors: Mapping[str, Vendor],
        patches: ResizePatches,
        reports: ResizeReports,
    ) -> None:
        """`vendors` say what amounts their cards can give."""
        self._ledger = ledger
        self._leadership = leadership
        self._quorum_reader = quorum_reader
        self._pod_reader = pod_reader
        self._vendors = vendors
        self._patches = patches
        self._reports = reports

    async def resize(self, name: PodKey) -> bool:
        """True when there is nothing left to do. Raises ApiRefused and Transient."""
        if not self._leadership.holds:
            self._patches.drop(name.uid)  # the holder of the Lease has observed the request too
            return True
        found = await self._quorum_reader.read(name)
        written = self._patches.settle(name.uid, found.version)
        if written is not None:
            self._reports.done(name, *written)
        entry = self._ledger.entry(name.uid)
        if found.state is not PodReadState.BOUND or found.pod is None or entry is None:
            return True
        request = found.pod.metadata.annotations.get(RESIZE_KEY)
        if request is None or not self._pod_reader.bears_its_grant(found.pod):
            return True  # a grant that is restored brings the request here again
        with tracing.span(
            "tessera.scheduler.resize", trace_of(found.pod.metadata.annotations),
            pod=f"{name.namespace}/{name.name}", node=entry.grant.node,
        ) as span:  # fmt: skip
            grant = entry.pending or self._next(request, entry.grant)
            if isinstance(grant, str):
                span.failed(grant)
                return await self._refuse(name, found.pod, grant)
            return await self._write(name, found.pod, entry.grant, grant)

    def _next(self, request: str, grant: Grant) -> Grant | str:
        """The next grant, reserved; or why there is none."""
        try:
            wanted = decode_resize(request)
        except msgspec.DecodeError as e:
            return f"annotation {RESIZE_KEY}: {e}: write it as docs/resizes.md says"
        made = resized(grant, wanted, self._vendors)
        if isinstance(made, str) or made == grant:
            return made
        refusal = self._ledger.resize(made)
        return made if refusal is None else refusal.message

    async def _refuse(self, name: PodKey, pod: Pod, why: str) -> bool:
        done = await self._patches.refuse(name, pod, why)
        if done:
            self._reports.refused(name, why)
        return done

    async def _write(self, name: PodKey, pod: Pod, old: Grant, new: Grant) -> bool:
        try:
            done = await self._patches.write(name, pod, old, new)
        except Unwritable as e:
            return await self._refuse(name, pod, str(e))
        if done and old != new:
            self._reports.done(name, old, new)
        return done


def _change(old: Share, new: Share) -> str:
    return (
        f"container {new.container}, card {new.index}: {old.memory_mib} -> {new.memory_mib} MiB, "
        f"{old.cores_percent:g} -> {new.cores_percent:g} % of cores"
    )
