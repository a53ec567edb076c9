"""What preemption follows, what it answers, and who carries it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from tessera_core.ledger.ledger import Ledger
from tessera_core.scheduling.filter import FilterAnswer
from tessera_core.scheduling.node_reservations import NodeReservations
from tessera_core.slices import Slices
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import ListWatch
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_runtime.plans.plan_store import PlanStore
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.cache.reflectors import ReflectorFactory, Watch
from tessera_scheduler.gangs.nodes import GangNodes
from tessera_scheduler.gangs.scheduling import GangScheduling
from tessera_scheduler.preemption.advisor import ClosedNodes, PreemptionAdvisor
from tessera_scheduler.preemption.cluster_views import ClusterViews
from tessera_scheduler.preemption.controller import PreemptionController
from tessera_scheduler.preemption.environment import PreemptionEnvironment
from tessera_scheduler.preemption.executor import PreemptionExecutor
from tessera_scheduler.preemption.pending_gangs import PendingGangs
from tessera_scheduler.preemption.pending_preemptors import PendingPreemptors
from tessera_scheduler.preemption.promises import PlanPromises
from tessera_scheduler.preemption.running_pods import RunningPods
from tessera_scheduler.preemption.vetoes import EvictionVetoes
from tessera_schema.plans import PlanKind


def open_preemption(
    environment: PreemptionEnvironment,
    *,
    ledger: Ledger,
    gangs: GangScheduling | None,
    reservations: NodeReservations,
    freed: Callable[[], object],
) -> SchedulerPreemption | None:
    """Preemption as the settings have it; None where it is off. `freed` is called when cards are no
    longer promised to anybody."""
    kube, registry = environment.kube, environment.registry
    settings, clock = environment.settings, environment.clock
    if not settings.enabled:
        return None
    nodes = GangNodes(registry.resources) if gangs is None else gangs.nodes
    own = nodes if gangs is None else None
    pods = RunningPods(own)
    views = ClusterViews(
        ledger=ledger, pods=pods, nodes=nodes, gangs=gangs, rules=settings.rules,
        reclaims=settings.reclaim,
    )  # fmt: skip
    closed = closed_nodes(reservations, environment.monotonic_clock)
    advisor = PreemptionAdvisor(kube, views, gangs, closed, clock, settings=settings)
    waiting = PendingPreemptors(settings.preemptors)
    registry_of_gangs = None if gangs is None else gangs.registry
    promises = PlanPromises(
        ledger, pods, registry_of_gangs, freed=freed, promise_s=settings.promise_s
    )
    controller = None
    if settings.evicts:
        plans = PlanStore(
            kube, (PlanKind.PREEMPT, PlanKind.RECLAIM), environment.plan_events.entered
        )
        executor = PreemptionExecutor(
            environment, ledger=ledger, plans=plans, gangs=registry_of_gangs
        )
        controller = PreemptionController(
            environment, ledger=ledger, waiting=waiting, advisor=advisor, executor=executor,
            plans=plans, promises=promises,
            gangs=None if gangs is None else PendingGangs(gangs, settings.preemptors),
        )  # fmt: skip
    vetoes = EvictionVetoes(pods, gangs, settings.rules)
    return SchedulerPreemption(
        pods, own, advisor, vetoes, waiting, promises=promises, controller=controller
    )


def closed_nodes(reservations: NodeReservations, clock: MonotonicClock) -> ClosedNodes:
    """The nodes that are reserved for others."""
    return lambda request, priority: reservations.closed_to(request, priority, clock.time()).keys()


class SchedulerPreemption:
    """Follows pods and nodes, answers for pods that wait, and evicts where it is on."""

    def __init__(
        self,
        pods: RunningPods,
        nodes: GangNodes | None,
        advisor: PreemptionAdvisor,
        vetoes: EvictionVetoes,
        waiting: PendingPreemptors,
        *,
        promises: PlanPromises,
        controller: PreemptionController | None,
    ) -> None:
        """`nodes` are followed by a watch of their own; None where gangs follow them. Without a
        `controller` nobody is evicted."""
        self.pods = pods
        self.waiting = waiting
        self.advice = advisor.advice
        self.veto = vetoes.veto
        self._nodes = nodes
        self._promises = promises
        self._controller = controller

    @property
    def evicts(self) -> bool:
        """Whether pods are evicted."""
        return self._controller is not None

    async def run(self) -> NoReturn:
        """Evict, until cancelled."""
        if self._controller is None:
            raise AssertionError("nobody is evicted")
        await self._controller.run()

    async def restore(self) -> None:
        """Promise what a former leader has promised."""
        if self._controller is not None:
            await self._controller.restore()

    def answered(self, answer: FilterAnswer, now: float) -> None:
        """Take an answer of filter."""
        if self._controller is not None:
            self.waiting.answered(answer, now)

    def watches(self, reflectors: ReflectorFactory, selector: str) -> list[Watch]:
        """A watch of the nodes that the label selector selects, where there is none yet."""
        if self._nodes is None:
            return []
        query = {"labelSelector": selector} if selector else {}
        listed = ListWatch(paths.NODES, self._nodes.read, query)
        return [reflectors.make(listed, self._nodes, "nodes of preemption")]

    def on_pod_list(self, items: Sequence[PodSummary]) -> Slices[None]:
        """See `RunningPods`."""
        self._promises.on_pod_list(items)
        return self.pods.on_pod_list(items)

    def on_pod(self, item: PodSummary) -> None:
        """See `RunningPods`."""
        self.pods.on_pod(item)
        self._promises.on_pod(item)
        if item.node:
            self.waiting.forget(item.uid)

    def on_pod_gone(self, item: PodSummary) -> None:
        """See `RunningPods`."""
        self.pods.on_pod_gone(item)
        self._promises.on_pod_gone(item)
        self.waiting.forget(item.uid)
