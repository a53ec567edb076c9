"""Joins what writes statuses back: what is watched for it, and a look at all gangs each second."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NoReturn

from tessera_core.admission.exempt_pods import scope_of
from tessera_core.gang_scheduling.attempt import WAITING, GangAttempt
from tessera_core.gang_status.groups import WRITTEN, GangSituation, StatusGroup
from tessera_core.gangs.gang import GangOrigin
from tessera_core.gangs.queue_objects import QueueReader
from tessera_core.gangs.queues import KOORDINATOR_QUOTA
from tessera_core.registry.registry import DialectRegistry
from tessera_core.slices import Slices
from tessera_runtime import logs
from tessera_runtime.kube.events import EventRecorder, ObjectRef
from tessera_runtime.metrics import MetricsRegistry
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.cache.reflectors import ReflectorFactory, Watch
from tessera_scheduler.environment import SchedulerEnvironment
from tessera_scheduler.gang_status.elastic_quotas import QuotaStatusWriter, StatusQuotas
from tessera_scheduler.gang_status.messages import GangMessages
from tessera_scheduler.gang_status.metrics import GangMetrics
from tessera_scheduler.gang_status.objects import (
    GROUPS,
    StatusGroups,
    StatusQueues,
    status_watches,
)
from tessera_scheduler.gang_status.pods import GroupPods, ended_pod_watch
from tessera_scheduler.gang_status.queues import QueueStatusWriter
from tessera_scheduler.gang_status.reports import GangReports
from tessera_scheduler.gang_status.timeouts import TimeoutMarks
from tessera_scheduler.gang_status.writer import GroupStatusWriter
from tessera_scheduler.gang_status.writes import StatusWrites
from tessera_scheduler.gangs.scheduling import GangScheduling
from tessera_scheduler.gangs.settings import GangSettings, GangWrite
from tessera_scheduler.leadership.leader import Leadership

GATHER_S: Final = 1.0
"""Seconds for which changes are gathered."""
QUEUES_S: Final = 5.0
"""Seconds between two looks at all queues."""
_SLICE: Final = 200
"""Gangs that are looked through at a time."""
_PROFILES: Final = {GangOrigin.VOLCANO: "volcano", GangOrigin.KOORDINATOR: "koordinator"}
"""Whose PodGroups -> the dialect that names their scheduler."""
_log = logs.named("tessera.scheduler.gangs.status")


def written_origins(
    settings: GangSettings, registry: DialectRegistry, schedulers: Iterable[str]
) -> Collection[GangOrigin]:
    """Whose PodGroups are written, where these profiles are served."""
    if GangWrite.PROFILES not in settings.write:
        return [each for each in WRITTEN if each.value in settings.write]
    served = scope_of(registry, schedulers).schedulers
    return [
        origin
        for origin, dialect in _PROFILES.items()
        if origin.value in settings.write
        or (dialect in registry.dialects and served & {*registry.dialects[dialect].schedulers})
    ]


def open_gang_statuses(
    environment: SchedulerEnvironment,
    gangs: GangScheduling | None,
    leadership: Leadership,
    metrics: MetricsRegistry,
) -> GangStatuses | None:
    """What writes the statuses of a scheduler, and reports on its gangs; None where pods of gangs
    go one by one."""
    if gangs is None:
        return None
    settings = environment.settings
    return GangStatuses(
        gangs=gangs, leadership=leadership,
        origins=written_origins(
            settings.gangs, environment.registry, settings.webhook.schedulers
        ),
        quotas=GangWrite.ELASTIC_QUOTAS in settings.gangs.write,
        writes=StatusWrites(environment.kube, leadership.fence, settings.kube.call_s),
        recorder=environment.recorder, metrics=GangMetrics(metrics),
        messages=GangMessages(environment.outbox, settings.bus.cluster, gangs.queues.key),
    )  # fmt: skip


class GangStatuses:
    """Writes back how gangs stand."""

    def __init__(
        self,
        *,
        gangs: GangScheduling,
        origins: Collection[GangOrigin],
        quotas: bool,
        writes: StatusWrites,
        leadership: Leadership,
        recorder: EventRecorder,
        metrics: GangMetrics,
        messages: GangMessages,
    ) -> None:
        """`origins` say whose PodGroups are written; with `quotas` Koordinator's ElasticQuotas are
        written as well."""
        self.origins = frozenset(origins)
        self.pods = GroupPods(gangs.clock)
        self._coordinator = gangs.coordinator
        self._view_queues = gangs.view_queues
        self._queues_at = float("-inf")
        self._leadership = leadership
        self._clock = gangs.clock
        self._recorder = recorder
        self._groups = [StatusGroups(origin) for origin in origins]
        self._queues = StatusQueues()
        self._volcano = GangOrigin.VOLCANO in origins
        self._writer = GroupStatusWriter(
            groups=self._groups, queues=self._queues, pods=self.pods, nodes=gangs.all_nodes,
            writes=writes, clock=gangs.clock,
        )  # fmt: skip
        self._queue_writer = QueueStatusWriter(self._queues, writes, gangs.clock)
        self._quotas = StatusQuotas() if quotas else None
        self._quota_writer = None if self._quotas is None else QuotaStatusWriter(
            self._quotas, lambda: gangs.queues.demands(KOORDINATOR_QUOTA),
            QueueReader(gangs.places.dialects), writes, gangs.clock,
        )  # fmt: skip
        marks = GangOrigin.KOORDINATOR in origins
        self._timeouts = TimeoutMarks(writes) if marks else None
        self._metrics = metrics
        self._messages = messages
        self._reports = GangReports(recorder, metrics, messages, self._ref, self._why)

    @property
    def others(self) -> int:
        """How many objects are not written because somebody else writes them."""
        quotas = 0 if self._quota_writer is None else self._quota_writer.others
        return self._writer.others + self._queue_writer.others + quotas

    def watches(self, reflectors: ReflectorFactory, selector: str) -> list[Watch]:
        """Watches of PodGroups, queues, and pods that have ended, as far as statuses are written;
        `selector` is that of nodes."""
        quotas = [] if self._quotas is None else [self._quotas.watch(reflectors)]
        if not self.origins:
            return quotas
        queues = self._queues if self._volcano else None
        return [
            *quotas,
            *status_watches(reflectors, self._groups, queues),
            ended_pod_watch(reflectors, self.pods),
        ]

    def on_pod_list(self, items: Sequence[PodSummary]) -> Slices[None]:
        """Take all pods that have not ended."""
        return self.pods.on_pod_list(items)

    def on_pod(self, item: PodSummary) -> None:
        """Take a pod that was added or modified."""
        self.pods.on_pod(item)

    def on_pod_gone(self, item: PodSummary) -> None:
        """Take a pod that was deleted, or has ended."""
        self.pods.on_pod_gone(item)

    async def run(self) -> NoReturn:
        """Write what differs each second while this replica leads, until cancelled."""
        while True:
            await asyncio.sleep(GATHER_S)
            if not self._leadership.leads:
                self._reports.forget()
                self._messages.forget()
                self._metrics.show((), 0)
                self._metrics.queues.show((), 0)
                continue
            self._report()
            if self.origins:
                await self._write()
            if self._quota_writer is not None:
                await self._quota_writer.write()

    def _report(self) -> None:
        bundles, now = self._coordinator.bundles(), self._clock.time()
        self._reports.observe(bundles, now)
        self._metrics.show(bundles, now)
        self._metrics.others.set(self.others)
        if now >= self._queues_at + QUEUES_S:
            self._queues_at, queues = now, self._view_queues()
            self._messages.states(queues, now)
            self._metrics.queues.show(queues, now)

    def _why(self, gang: str) -> str:
        return self._coordinator.why(gang, self._clock.time())

    def _ref(self, gang: str) -> ObjectRef | None:
        found = (groups.known[gang] for groups in self._groups if gang in groups.known)
        group = next(found, None)
        return None if group is None else _ref_of(group)

    async def _write(self) -> None:
        await self._writer.write(await self._situations(), self._on_other)
        if self._volcano:
            await self._queue_writer.write(self._writer.allocated())
        if self._timeouts is not None:
            await self._timeouts.write(self._coordinator.bundles(), self._clock.time())

    async def _situations(self) -> dict[str, GangSituation]:
        now, found = self._clock.time(), dict[str, GangSituation]()
        for number, known in enumerate(self._coordinator.bundles()):
            for members in known.bundle.gangs:
                gang, attempt = members.gang, known.attempt
                if gang.together or gang.problem:
                    found[gang.id] = GangSituation(
                        phase=attempt.phase, reason=self._coordinator.why(gang.id, now),
                        tried=_tried(attempt),
                    )  # fmt: skip
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        return found

    def _on_other(self, group: StatusGroup, other: str) -> None:
        _log.warning("status is written by somebody else", group=group.id, manager=other)
        self._recorder.record(
            _ref_of(group), "StatusWrittenByOther",
            f"metadata.managedFields: {other} has written the status: Tessera does not write it "
            "for ten minutes: stop that scheduler, or set TESSERA_GANGS_WRITE=none",
            warning=True,
        )  # fmt: skip


def _ref_of(group: StatusGroup) -> ObjectRef:
    meta, (api, version) = group.metadata, GROUPS[group.origin]
    return ObjectRef("PodGroup", meta.name, group.namespace, meta.uid, f"{api}/{version}")


def _tried(attempt: GangAttempt) -> bool:
    return attempt.phase in WAITING and (attempt.searched_at >= 0 or attempt.misses > 0)
