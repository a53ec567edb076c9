"""A whole scheduler in one event loop: books, extender, leadership, and what they lead to.

    async with open_scheduler(kube, bus, settings, clock, registry) as scheduler:
        answer = scheduler.extender.filter(body)

It opens no sockets: `tessera_scheduler.main` serves it, tests call it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import NoReturn

from tessera_core.explain.decision_log import DecisionLog
from tessera_core.explain.refusals import WaitingPodMessages
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.packing.state import PackingState
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.registry.registry import DialectRegistry
from tessera_core.reports.agents import AgentReports
from tessera_core.scheduling.filter import Filter
from tessera_runtime import logs
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.api import Bus
from tessera_runtime.clock import Clock
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.events import ObjectRef, of_pod
from tessera_scheduler.alarms import Alert, Alerts
from tessera_scheduler.audit import Audit
from tessera_scheduler.binding.binder import Binder
from tessera_scheduler.binding.outcomes import BinderDependencies
from tessera_scheduler.binding.quorum_read import QuorumReader
from tessera_scheduler.binding.resize import Resizer
from tessera_scheduler.binding.resize import ResizerDependencies as ResizingTools
from tessera_scheduler.binding.restore import GrantRestorer, RestorerDependencies
from tessera_scheduler.cache.agent_reports import AgentReportAudit
from tessera_scheduler.cache.device_states import DeviceStates
from tessera_scheduler.cache.handlers import HandlerTargets
from tessera_scheduler.cache.hints import HintCache
from tessera_scheduler.cache.in_flight import InFlightTracker
from tessera_scheduler.cache.nodes import NodeCache
from tessera_scheduler.cache.outlived import OutlivedContainers
from tessera_scheduler.cache.packing import Packing
from tessera_scheduler.cache.packing import PackingDependencies as PackingAround
from tessera_scheduler.cache.pod_reader import PodReader
from tessera_scheduler.cache.pods import PodCache
from tessera_scheduler.cache.quotas import QuotaCache
from tessera_scheduler.cache.reservations import Reservations
from tessera_scheduler.cache.watches import Watches
from tessera_scheduler.environment import SchedulerEnvironment, open_environment
from tessera_scheduler.events import AllocationEvents
from tessera_scheduler.extender.handlers import Extender, ExtenderDependencies
from tessera_scheduler.extender.requeue import PendingPodRequeuer
from tessera_scheduler.leadership.fence import FencingCheck
from tessera_scheduler.leadership.leader import Leadership
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_scheduler.retry_queue import RetryQueue
from tessera_scheduler.settings import SchedulerSettings
from tessera_schema.grants import Grant

_log = logs.named("tessera.scheduler")


class Scheduler:
    """Books that follow the cluster, and answers from them."""

    def __init__(self, world: SchedulerEnvironment) -> None:
        """Use `open_scheduler`."""
        settings = world.settings
        books = settings.books
        self._world = world
        self.registry, self.keys, self.steady = world.registry, world.keys, world.steady
        self.ledger, self.decisions, self.measures = Ledger(), DecisionLog(), SchedulerMetrics()
        self._packer = Packer(PackingState(reserve=settings.packing.reserve))
        self.placer = Placer(
            self.ledger.fleet, ScreenCache(), self._packer if settings.packing.enabled else None
        )
        self._lent = self.ledger.lent
        self.measures.watch(self.ledger)
        self.filter = Filter(world.registry, self.ledger, self.placer, self.decisions)
        self.errands = RetryQueue(
            at_once=books.errands, first_s=books.errand_first_s, most_s=books.errand_most_s
        )
        self.leading = Leadership(world.lease, self._take_over, self._resign)
        refusals = WaitingPodMessages(world.registry, self.ledger)
        self._news = AllocationEvents(world.outbox, settings.bus.cluster, refusals)
        self._waker = PendingPodRequeuer(
            world.kube, self.ledger, world.clock, self.measures,
            waits=lambda: self.leading.leads and self._news.waiting > 0, every_s=books.wake_s,
        )  # fmt: skip
        self.reader = PodReader(
            world.registry, self.ledger, lambda: world.keys.verifier, migration=books.migration
        )
        self.packing = Packing(self._around_packing(), settings.packing)
        self._alarms = Alerts(
            world.steady.time, lambda wrong: self.measures.alarms.labels(wrong).inc(), self._alarm
        )
        outlived = OutlivedContainers(self.ledger, news_s=books.news_s)
        self.books = PodCache(self.ledger, self.reader, self._alarms, self, outlived)
        self._looking = QuorumReader(
            world.kube, self.ledger, self.books, self.reader, world.steady,
            lambda: self.leading.holds,
        )  # fmt: skip
        self.binder = Binder(self._around(), settings.bind, settings.kube.call_s)
        self._fence = FencingCheck(
            world.kube, settings.namespace, self.measures.fenced.set, again_s=books.errand_first_s
        )
        self._restoring = GrantRestorer(self._tools(), every_s=books.errand_most_s)
        self._resizing = Resizer(self._tools_of_resizing(), call_s=settings.kube.call_s)
        reports = AgentReports(settings.bus.cluster, world.registry.vendors, self.measures.doubted)
        self._nodes = NodeCache(world.registry, self.ledger, reports, news_s=books.news_s)
        self.agents = AgentReportAudit(self.ledger, news_s=books.news_s)
        self._states = DeviceStates(
            reports, self._nodes, outlived, self.agents,
            self.measures.undecodable.labels("device news"),
        )  # fmt: skip
        self.measures.differing.labels("agents").set_function(lambda: self.agents.differing)
        self._hints = HintCache(self.ledger.fleet, settings.hints, world.steady, self.measures)
        self._reservations = Reservations(self.filter.reserved, self.freed)
        self._starts = InFlightTracker(
            self.filter, self._alarms, self.freed, longest_s=books.start_s
        )
        self.watching = Watches(
            world.kube,
            world.bus,
            self._told(),
            books,
            settings.kube,
            world.random,
            settings.quota.gpu_quota,
        )
        self.audit = Audit(
            world.kube,
            self.ledger,
            self.reader,
            self,
            self.measures,
            world.clock,
            world.steady,
            page=settings.kube.page,
        )
        self.extender = Extender(
            ExtenderDependencies(
                registry=world.registry, ledger=self.ledger, placer=self.placer,
                filter=self.filter, binder=self.binder, news=self._news, measures=self.measures,
                steady=world.steady, problem=self.leading.problem, look=self.packing.look,
            )
        )  # fmt: skip

    async def run(self) -> None:
        """Follow the cluster, until cancelled."""
        books = self._world.settings.books
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watching.run(), name="watching")
            group.create_task(self.errands.run(), name="errands")
            group.create_task(self.leading.run(), name="leading")
            group.create_task(self._waker.run(), name="waking")
            group.create_task(self._sweep(books.sweep_s), name="sweeping")
            group.create_task(self.audit.run(books.audit_s), name="auditing")
            group.create_task(
                self._fence.run(self._world.lease, books.fence_s), name="trying the fence"
            )
            group.create_task(self.packing.run(), name="packing")
            group.create_task(self._hints.run(self._world.bus), name="hints")

    # -- consequences of what the books see

    def released(self, grant: Grant) -> None:
        """See `books.Consequences`."""
        if self.leading.holds:
            self._news.released(grant)
        self.freed()

    def gone(self, uid: str) -> None:
        """See `books.Consequences`."""
        self.filter.forget(uid)
        self.packing.gone(uid)
        self.binder.on_pod_gone(uid)
        self._resizing.gone(uid)
        self._news.gone(uid)
        if self._lent != self.ledger.lent:  # what it asked for, and never got, is lent again
            self._lent = self.ledger.lent
            self.freed()

    def doubt(self, pod: PodKey) -> None:
        """See `books.Consequences`."""

        async def look() -> bool:
            await self._looking.read(pod)
            return True

        self.errands.add("look at", pod.uid, look)

    def restore(self, pod: PodKey) -> None:
        """See `books.Consequences`."""
        self.errands.add("restore", pod.uid, partial(self._restoring.restore, pod))

    def resize(self, pod: PodKey) -> None:
        """See `books.Consequences`."""
        self.errands.add("resize", pod.uid, partial(self._resizing.resize, pod))

    def freed(self) -> None:
        """See `books.Consequences`."""
        self._waker.requeue()

    # -- leading

    async def _take_over(self) -> None:
        self._alarms.forget()
        await self._fence.prove(self._world.lease.generation)
        await self._fresh_keys()
        await self.watching.pods_anew()
        self.measures.leading.set(1)
        self.freed()

    async def _fresh_keys(self) -> None:
        """A key that the former leader made must be known before the pods are read."""
        while True:
            try:
                await self._world.keys.refresh()
            except TesseraError as e:
                _log.warning("keys not read", why=str(e))
                await asyncio.sleep(self._world.settings.books.errand_first_s)
            else:
                return

    def _resign(self) -> None:
        self.measures.leading.set(0)
        self.ledger.expire(float("inf"))

    # -- time

    async def _sweep(self, every_s: float) -> NoReturn:
        while True:
            await asyncio.sleep(every_s)
            now = self._world.steady.time()
            expired = self.ledger.expire(now - self._world.settings.books.reservation_s)
            self.measures.expired.inc(len(expired))
            self._reservations.expire(now)
            self._starts.expire(now)
            if self._states.expire(now) or expired:
                self.freed()

    def _alarm(self, alarm: Alert) -> None:
        if self.leading.holds:
            about = ObjectRef("Pod", alarm.name, alarm.namespace, alarm.uid)
            self._world.events.record(
                about, str(alarm.wrong), f"the pod {alarm.text}", warning=True
            )

    # -- parts

    def _around(self) -> BinderDependencies:
        world = self._world
        return BinderDependencies(
            kube=world.kube,
            registry=world.registry,
            ledger=self.ledger,
            placer=self.placer,
            filter=self.filter,
            reader=self.reader,
            looking=self._looking,
            errands=self.errands,
            keys=world.keys,
            news=self._news,
            measures=self.measures,
            clock=world.clock,
            steady=world.steady,
            fence=self.leading.fence,
            term=self.leading.term,
            freed=self.freed,
            placed=self.packing.bound,
        )

    def _around_packing(self) -> PackingAround:
        world = self._world
        return PackingAround(
            kube=world.kube, namespace=world.settings.namespace, registry=world.registry,
            ledger=self.ledger, packer=self._packer, filter=self.filter, measures=self.measures,
            steady=world.steady,
            leads=lambda: self.leading.leads,
        )  # fmt: skip

    def _tools(self) -> RestorerDependencies:
        world = self._world
        return RestorerDependencies(
            kube=world.kube, registry=world.registry, ledger=self.ledger, reader=self.reader,
            keys=world.keys, measures=self.measures, clock=world.clock, steady=world.steady,
            holds=lambda: self.leading.holds, term=self.leading.term,
        )  # fmt: skip

    def _tools_of_resizing(self) -> ResizingTools:
        world = self._world
        return ResizingTools(
            kube=world.kube, registry=world.registry, ledger=self.ledger, looking=self._looking,
            reader=self.reader, keys=world.keys, measures=self.measures, clock=world.clock,
            holds=lambda: self.leading.holds, fence=self.leading.fence, term=self.leading.term,
            freed=self.freed, tell=self._tell,
        )  # fmt: skip

    def _tell(self, pod: PodKey, reason: str, words: str) -> None:
        self._world.events.record(of_pod(pod), reason, words)

    def _told(self) -> HandlerTargets:
        return HandlerTargets(
            ledger=self.ledger, registry=self.registry, reader=self.reader, books=self.books,
            states=self._states,
            nodes=self._nodes, limits=QuotaCache(self.registry, self.ledger),
            errands=self.errands, measures=self.measures, steady=self._world.steady,
            freed=self.freed, reservations=self._reservations, starts=self._starts,
            hosts=self.packing.hosts,
        )  # fmt: skip


@asynccontextmanager
async def open_scheduler(
    kube: Kube,
    bus: Bus,
    settings: SchedulerSettings,
    clock: Clock,
    registry: DialectRegistry,
    *,
    random: Random | None = None,
) -> AsyncGenerator[Scheduler]:
    """A scheduler that follows the cluster, stands for the Lease and answers when it leads.

    `random` spreads attempts in time; one with a seed makes a run repeatable. Raises BadSettings,
    and ApiRefused where its credentials do not do.
    """
    async with open_environment(kube, bus, settings, clock, registry, random=random) as world:
        scheduler = Scheduler(world)
        async with running_in_background(scheduler.run(), "scheduler"):
            yield scheduler
