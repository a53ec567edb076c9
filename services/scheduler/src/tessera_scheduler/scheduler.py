"""A whole scheduler in one event loop: ledger, extender, leadership, and what they lead to.

    async with open_scheduler(kube, bus, settings, clock, registry) as scheduler:
        answer = scheduler.extender.filter(body)

It opens no sockets: `tessera_scheduler.main` serves it, tests call it. It is longer than a module
should be, because every part is made in one place, and connected with the others there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from random import Random
from typing import NoReturn

from tessera_core.explain.decision_log import DecisionLog
from tessera_core.explain.refusals import WaitingPodMessages
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.packing.host_capacity import HostCapacity
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.packing.state import PackingState
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.registry.plugin_requests import plugin_requests
from tessera_core.registry.registry import DialectRegistry
from tessera_core.reports.agents import AgentReports
from tessera_core.scheduling.filter import Filter
from tessera_core.scheduling.in_flight import InFlightPods
from tessera_core.scheduling.node_reservations import NodeReservations
from tessera_core.scheduling.preemption import PreemptionCheck
from tessera_core.scheduling.prioritize import Prioritizer
from tessera_core.scheduling.reserve import reserved_node
from tessera_core.scheduling.simulation import ScaleUpSimulation
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.api import Bus
from tessera_runtime.clock import Clock
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.reflector import ListWatch
from tessera_runtime.slice_runner import in_slices
from tessera_scheduler.alerts import Alerts
from tessera_scheduler.audit import Audit, GrantLister
from tessera_scheduler.binding.binder import Binder
from tessera_scheduler.binding.grant_annotations import GrantAnnotations
from tessera_scheduler.binding.labels import PodLabeller
from tessera_scheduler.binding.outcomes import BindingOutcomes
from tessera_scheduler.binding.quorum_read import QuorumReader
from tessera_scheduler.binding.resize import Resizer, ResizeReports
from tessera_scheduler.binding.resize_patches import ResizePatches
from tessera_scheduler.binding.restore import GrantRestorer
from tessera_scheduler.binding.sender import BindingSender
from tessera_scheduler.binding.store import BindingStore
from tessera_scheduler.cache.agent_leases import AgentLeases, AgentLeaseWatch
from tessera_scheduler.cache.agent_reports import AgentReportAudit
from tessera_scheduler.cache.device_states import DeviceStateListener, DeviceStates
from tessera_scheduler.cache.handlers import NodeHandler, PodHandler
from tessera_scheduler.cache.hints import HintCache
from tessera_scheduler.cache.in_flight import InFlightTracker
from tessera_scheduler.cache.nodes import NodeCache
from tessera_scheduler.cache.outlived import OutlivedContainers
from tessera_scheduler.cache.packing import Packing
from tessera_scheduler.cache.packing_history import HistoryConfigMap
from tessera_scheduler.cache.placement_orders import PlacementOrders
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.cache.pod_reader import PodReader
from tessera_scheduler.cache.pods import PodCache
from tessera_scheduler.cache.quotas import QuotaCache
from tessera_scheduler.cache.reflectors import (
    NodeRefresher,
    ReflectorFactory,
    RestartableReflector,
)
from tessera_scheduler.cache.reservations import Reservations
from tessera_scheduler.cache.watches import (
    LIVING,
    Watches,
    custom_resource_watches,
    node_watches,
    quota_watches,
)
from tessera_scheduler.environment import SchedulerEnvironment, open_environment
from tessera_scheduler.events import AllocationEvents, SchedulerPlanEvents
from tessera_scheduler.extender.filter import FilterCalls
from tessera_scheduler.extender.handlers import Extender
from tessera_scheduler.extender.requeue import PendingPodRequeuer
from tessera_scheduler.gang_plans.dissolver import open_gang_dissolver
from tessera_scheduler.gang_status.statuses import open_gang_statuses
from tessera_scheduler.gangs.gates import GateOpener, LeftGates
from tessera_scheduler.gangs.queue_history import QueueHistoryStore
from tessera_scheduler.gangs.scheduling import open_gangs
from tessera_scheduler.leadership.fence import FencingCheck
from tessera_scheduler.leadership.leader import Leadership
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_scheduler.placement_events import PlacementEvents
from tessera_scheduler.preemption.environment import PreemptionEnvironment
from tessera_scheduler.preemption.preemption import open_preemption
from tessera_scheduler.preemption.victim_reader import VictimReader
from tessera_scheduler.retry_queue import RetryQueue
from tessera_scheduler.settings import SchedulerSettings
from tessera_scheduler.takeover import Takeover


class Scheduler:
    """The composition root: a ledger that follows the cluster, and answers from it."""

    def __init__(self, environment: SchedulerEnvironment) -> None:
        """Use `open_scheduler`."""
        self._environment = environment
        kube, registry, settings = environment.kube, environment.registry, environment.settings
        clock, call_s, times = environment.monotonic_clock, settings.kube.call_s, settings.ledger
        self.registry, self.keys, self.monotonic_clock = registry, environment.keys, clock

        # What decides: the ledger and the filter on it
        self.ledger, self.decisions, self.metrics = Ledger(), DecisionLog(), SchedulerMetrics()
        packer = Packer(PackingState(reserve=settings.packing.reserve.reserve))
        self.placer = Placer(
            self.ledger.fleet, ScreenCache(), packer if settings.packing.enabled else None
        )
        self.node_reservations = NodeReservations(self.ledger.entry)
        self.in_flight = InFlightPods(
            plugin_requests(registry), partial(reserved_node, self.ledger)
        )
        self.leadership = Leadership(environment.lease, self.metrics.leading)
        self.retry_queue = RetryQueue(
            at_once=times.retries_at_once, first_s=times.retry_first_s, most_s=times.retry_most_s
        )
        self.gangs = open_gangs(
            settings.gangs, registry=registry, ledger=self.ledger, in_flight=self.in_flight,
            leadership=self.leadership, clock=clock, schedulers=settings.webhook.schedulers,
            gates=self._gates,
        )  # fmt: skip
        self.gang_statuses = open_gang_statuses(
            environment, self.gangs, self.leadership, self.metrics.registry
        )
        self.filter = Filter(
            registry, self.ledger, self.placer, self.decisions,
            reservations=self.node_reservations, in_flight=self.in_flight,
            held_back=self.gangs.refusal if self.gangs is not None else None,
            passes=self.gangs.passes if self.gangs is not None else None,
        )  # fmt: skip

        # What is reported
        self._fencing = FencingCheck(
            kube, settings.namespace, self.metrics.fenced, again_s=times.retry_first_s
        )
        alerts = Alerts(self.metrics.alerts, environment.recorder, self.leadership, clock)
        self._allocation_events = AllocationEvents(
            environment.outbox, settings.bus.cluster, WaitingPodMessages(registry, self.ledger),
            self.leadership,
        )  # fmt: skip
        self._requeuer = PendingPodRequeuer(
            kube=kube, ledger=self.ledger, leadership=self.leadership,
            allocation_events=self._allocation_events, touches=self.metrics.wakes,
            clock=environment.clock, every_s=times.wake_s,
        )  # fmt: skip

        # What follows the cluster
        pod_events = self._pod_events = PodEvents()
        self.preemption = open_preemption(
            PreemptionEnvironment(
                kube=kube, calls=settings.kube, registry=registry, recorder=environment.recorder,
                clock=environment.clock, monotonic_clock=clock, settings=settings.preemption,
                leadership=self.leadership, plan_events=self._plan_events,
            ),
            ledger=self.ledger, gangs=self.gangs, reservations=self.node_reservations,
            freed=pod_events.freed.publish,
        )  # fmt: skip
        self.pod_reader = PodReader(
            registry, self.ledger, environment.keys.verifier, migration=times.migration,
            gangs=settings.gangs.on,
            read_victim=VictimReader(self.preemption.pods.get).read if self.preemption else None,
        )  # fmt: skip
        outlived = OutlivedContainers(self.ledger, report_s=times.report_s)
        self.pod_cache = PodCache(
            ledger=self.ledger, pod_reader=self.pod_reader, alerts=alerts, pod_events=pod_events,
            outlived=outlived,
        )  # fmt: skip
        reports = AgentReports(settings.bus.cluster, registry.vendors, self.metrics.doubted)
        nodes = NodeCache(registry, self.ledger, reports, report_s=times.report_s)
        self.agent_audit = AgentReportAudit(self.ledger, report_s=times.report_s)
        self._device_states = DeviceStates(
            reports=reports, nodes=nodes, outlived=outlived, agent_audit=self.agent_audit,
            unreadable=self.metrics.undecodable.labels("device news"),
        )  # fmt: skip
        self._reservations = Reservations(self.node_reservations, pod_events)
        self._in_flight_tracker = InFlightTracker(
            filter_=self.filter, in_flight=self.in_flight, alerts=alerts, pod_events=pod_events,
            longest_s=times.start_s,
        )  # fmt: skip
        self._agent_leases = AgentLeases(
            ledger=self.ledger, in_flight=self.in_flight, raise_alert=alerts.raise_,
            pod_events=pod_events, gauge=self.metrics.silent_agents, clock=environment.clock,
        )  # fmt: skip
        self._hints = HintCache(
            self.ledger, settings.hints, clock, self.metrics, pod_events.freed.publish
        )
        self._orders = PlacementOrders(registry, packer)
        self.packing = Packing(
            ledger=self.ledger, packer=packer, filter_=self.filter, leadership=self.leadership,
            stored=HistoryConfigMap(
                kube, settings.namespace, half_life_s=settings.packing.half_life_s
            ),
            clock=clock, settings=settings.packing,
        )  # fmt: skip
        self.watches = self._make_watches(nodes, packer.hosts)

        self._lease_watch = AgentLeaseWatch(
            kube=kube, calls=settings.kube, settings=settings.agents, handler=self._agent_leases,
            leadership=self.leadership, identity=settings.instance or "scheduler",
            random=environment.random,
        )  # fmt: skip

        # What writes to the cluster
        self._quorum_reader = QuorumReader(
            kube=kube, ledger=self.ledger, pod_cache=self.pod_cache, pod_reader=self.pod_reader,
            leadership=self.leadership, clock=clock,
        )  # fmt: skip
        annotations = GrantAnnotations(
            registry=registry, ledger=self.ledger, keys=self.keys, leadership=self.leadership,
            pod_reader=self.pod_reader, clock=environment.clock,
        )  # fmt: skip
        self._bindings = BindingStore(clock, late_s=settings.bind.late_s)
        outcomes = BindingOutcomes(
            ledger=self.ledger, store=self._bindings, quorum_reader=self._quorum_reader,
            retry_queue=self.retry_queue, pod_events=pod_events, metrics=self.metrics,
        )  # fmt: skip
        binder = Binder(
            ledger=self.ledger, filter_=self.filter, store=self._bindings, outcomes=outcomes,
            annotations=annotations, quorum_reader=self._quorum_reader,
            sender=BindingSender(
                kube=kube, leadership=self.leadership, quorum_reader=self._quorum_reader,
                outcomes=outcomes, clock=clock, settings=settings.bind, call_s=call_s,
            ),
        )  # fmt: skip
        self._restorer = GrantRestorer(
            kube=kube, leadership=self.leadership, pod_reader=self.pod_reader,
            annotations=annotations, alerts=alerts, metrics=self.metrics, clock=clock,
            every_s=times.retry_most_s,
        )  # fmt: skip
        self._patches = ResizePatches(
            kube=kube, ledger=self.ledger, annotations=annotations, leadership=self.leadership,
            call_s=call_s,
        )  # fmt: skip
        self._resizer = Resizer(
            ledger=self.ledger, leadership=self.leadership, quorum_reader=self._quorum_reader,
            pod_reader=self.pod_reader, vendors=registry.vendors, patches=self._patches,
            reports=ResizeReports(self.metrics, environment.recorder, pod_events),
        )  # fmt: skip
        placement_events = PlacementEvents(
            settings.placement_events, environment.recorder, registry, self.ledger, self.placer
        )
        self.extender = Extender(
            leadership=self.leadership,
            filter_calls=FilterCalls(
                filter_=self.filter, orders=self._orders, allocation_events=self._allocation_events,
                refusals=self.metrics.refusals, clock=clock,
                simulation=ScaleUpSimulation(registry, self.ledger),
                placement_events=placement_events,
                answered=self.preemption.answered if self.preemption is not None else None,
            ),
            prioritizer=Prioritizer(registry, self.ledger, self.placer),
            preemption=PreemptionCheck(
                registry, self.ledger, self.node_reservations,
                self.preemption.veto if self.preemption is not None else None,
            ),
            binder=binder, placement_events=placement_events, clock=clock, gangs=self.gangs,
        )  # fmt: skip
        self.audit = Audit(
            lister=GrantLister(
                kube, self.pod_reader, self.metrics.undecodable, page=settings.kube.page
            ),
            ledger=self.ledger, pod_events=pod_events, metrics=self.metrics,
            clock=environment.clock, monotonic_clock=clock,
        )  # fmt: skip
        self._takeover = Takeover(
            lease=environment.lease, fencing=self._fencing, keys=self.keys, watches=self.watches,
            alerts=alerts, pod_events=pod_events, retry_s=times.retry_first_s,
            then=self._before_pods,
        )  # fmt: skip

        self._export()
        self._subscribe()

    @property
    def _before_pods(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """What a replica does before it answers for any pod."""
        promised = () if self.preemption is None else (self.preemption.restore,)
        broken = () if self.gangs is None else (self.gangs.finish_broken,)
        return (*promised, *broken)

    @property
    def _queue_history(self) -> QueueHistoryStore | None:
        """What stores it; None where the past does not count."""
        history = None if self.gangs is None else self.gangs.history
        if history is None:
            return None
        environment = self._environment
        return QueueHistoryStore(
            environment.kube, environment.settings.namespace, history, self.leadership,
            self.monotonic_clock,
        )  # fmt: skip

    @cached_property
    def _gates(self) -> GateOpener:
        environment = self._environment
        return GateOpener(environment.kube, self.leadership, self.retry_queue, environment.recorder)

    @cached_property
    def _plan_events(self) -> SchedulerPlanEvents:
        environment = self._environment
        return SchedulerPlanEvents(
            environment.outbox, environment.settings.bus.cluster, self.leadership
        )

    def _make_watches(self, nodes: NodeCache, hosts: HostCapacity) -> Watches:
        environment, settings = self._environment, self._environment.settings
        registry, clock, pod_events = self.registry, self.monotonic_clock, self._pod_events
        parts = (self.gangs, self.preemption, self.gang_statuses)
        followers = [each for each in parts if each is not None]
        left = () if self.gangs is not None else (LeftGates(self._gates),)
        nodes_read = asyncio.Event()
        reflectors = ReflectorFactory(
            kube=environment.kube, settings=settings.ledger, calls=settings.kube,
            random=environment.random, undecodable=self.metrics.undecodable,
        )  # fmt: skip
        pod_handler = PodHandler(
            pod_cache=self.pod_cache, reservations=self._reservations,
            in_flight=self._in_flight_tracker, hosts=hosts, relists=self.metrics.relists,
            clock=clock, others=[*left, *followers],
        )  # fmt: skip
        node_handler = NodeHandler(
            nodes=nodes, device_states=self._device_states, agent_leases=self._agent_leases,
            in_flight=self._in_flight_tracker, hosts=hosts, relists=self.metrics.relists,
            clock=clock,
        )  # fmt: skip
        return Watches(
            customs=custom_resource_watches(
                reflectors, {p for d in registry.readers.values() for p in d.custom_resources},
                nodes, NodeRefresher(environment.kube, nodes, self.retry_queue, nodes_read).refresh,
            ),
            nodes=[
                *node_watches(
                    reflectors, nodes, node_handler, self.ledger, pod_events,
                    settings.nodes.selector,
                ),
                *quota_watches(
                    reflectors, QuotaCache(registry, self.ledger), pod_events,
                    self.metrics.relists, settings.quota.gpu_quota,
                ),
                *(w for e in followers for w in e.watches(reflectors, settings.nodes.selector)),
            ],
            pods=RestartableReflector(
                lambda: reflectors.make(
                    ListWatch(paths.PODS, self.pod_reader.read, LIVING), pod_handler, "pods"
                )
            ),
            device_states=DeviceStateListener(
                environment.bus, self._device_states, clock, pod_events
            ),
            nodes_read=nodes_read,
        )  # fmt: skip

    def _export(self) -> None:
        """Have the metrics read what they show."""
        self.metrics.watch(self.ledger)
        self.metrics.watch_waiting(self._allocation_events.refused, self.monotonic_clock.time)
        self.metrics.differing.labels("agents").set_function(lambda: self.agent_audit.differing)
        self.packing.publish(self.metrics.registry)

    def _subscribe(self) -> None:
        """Connect pod events with what follows from them, in this order."""
        events, add = self._pod_events, self.retry_queue.adder
        if self._environment.settings.bind.labels:
            labeller = PodLabeller(
                self._environment.kube, self.registry, self.filter, self.retry_queue
            )
            events.bound.subscribe(labeller.on_bound)
        events.bound.subscribe(
            self.packing.on_bound,
            lambda grant: self.filter.forget(grant.uid),
            self._allocation_events.granted,
        )
        events.gone.subscribe(
            self.filter.forget, self._orders.forget, self._bindings.forget, self._patches.forget,
            self._allocation_events.forget, self._requeuer.on_pod_gone,
        )  # fmt: skip
        events.released.subscribe(
            self._allocation_events.released, lambda _: self._requeuer.requeue()
        )
        events.freed.subscribe(self._requeuer.requeue)
        if self.gangs is not None:
            self.gangs.on_requeue(self._requeuer.requeue)
        events.doubted.subscribe(add("look at", self._quorum_reader.refresh))
        events.grant_changed.subscribe(add("restore", self._restorer.restore))
        events.resize_requested.subscribe(add("resize", self._resizer.resize))

    async def run(self) -> None:
        """Follow the cluster, until cancelled."""
        environment, times = self._environment, self._environment.settings.ledger
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watches.run(), name="watches")
            group.create_task(self.retry_queue.run(), name="retry queue")
            group.create_task(
                self.leadership.run(self._takeover.run, self._resign), name="leadership"
            )
            group.create_task(self._requeuer.run(), name="requeuer")
            group.create_task(self._sweep(times.sweep_s), name="sweep")
            group.create_task(self.audit.run(times.audit_s), name="audit")
            group.create_task(self._fencing.run(environment.lease, times.fence_s), name="fencing")
            group.create_task(self.packing.run(), name="packing")
            group.create_task(self._hints.run(environment.bus), name="hints")
            group.create_task(self._lease_watch.run(), name="leases of agents")
            dissolver = open_gang_dissolver(
                environment, self.gangs, self.leadership, self._plan_events
            )
            for part in (self.gangs, self.gang_statuses, dissolver, self._queue_history):
                if part is not None:
                    group.create_task(part.run(), name=type(part).__name__)
            if self.preemption is not None and self.preemption.evicts:
                group.create_task(self.preemption.run(), name="preemption")

    def _resign(self) -> None:
        """Drop the reservations that were never sent: only the leader may hold them."""
        self.ledger.expire(float("inf"))
        if self.gangs is not None:
            self.gangs.resign()

    async def _sweep(self, every_s: float) -> NoReturn:
        """Drop what has run out, periodically, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            now = self.monotonic_clock.time()
            expired = self.ledger.expire(now - self._environment.settings.ledger.reservation_s)
            self.metrics.expired.inc(len(expired))
            self._reservations.expire(now)
            self._in_flight_tracker.expire(now)
            await in_slices(self._agent_leases.expire())
            if self._device_states.expire(now) or expired:
                self._requeuer.requeue()


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
    opened = open_environment(kube, bus, settings, clock, registry, random=random)
    async with opened as environment:
        scheduler = Scheduler(environment)
        async with running_in_background(scheduler.run(), "scheduler"):
            yield scheduler
