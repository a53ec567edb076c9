"""The cluster as plans see it: the nodes and pods that hints are made from too, and what only
plans read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from tessera_core.kube.pod_requests import Amounts
from tessera_core.kube.quantity import BadQuantity
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.rebalance.cluster_view import ClusterView, WaitingPod
from tessera_core.rebalance.plan_budget import Former, spent
from tessera_core.rebalance.proposals import ProposalRules
from tessera_core.slices import Slices
from tessera_core.usage.smoothed import SmoothContainer
from tessera_rebalancer.plans.cluster_objects import ClusterObjects
from tessera_rebalancer.plans.pod_summary import PlanPodSummary
from tessera_rebalancer.plans.pods import RunningPlanPods
from tessera_rebalancer.plans.quotas import PlanQuotas
from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime import logs
from tessera_runtime.informers import namespaces
from tessera_runtime.informers.disruption_budgets import DisruptionBudgets
from tessera_runtime.informers.installed_kinds import watch_when_installed
from tessera_runtime.kube.reflector import Handler, ListWatch, Reflector
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.kube import PodSpec
from tessera_schema.messages.hints import CardHint, NodeHints

T = TypeVar("T")

_log: Final = logs.named("tessera.rebalancer.plans")


class ClusterWatch:
    """Quotas, namespaces and disruption budgets, with the cluster's nodes and pods."""

    def __init__(
        self, environment: ServiceEnvironment[RebalancerSettings], objects: ClusterObjects
    ) -> None:
        """`run` fills it, but for `objects`."""
        self.ledger, self.pods, self.nodes = objects.ledger, objects.planned, objects.nodes
        self.limits = PlanQuotas(environment.registry, self.ledger)
        self.disruptions = DisruptionBudgets()
        self.read = asyncio.Event()
        """Set once everything was read."""
        self._pods_read = objects.pods_read
        self._kube = environment.kube
        self._registry = environment.registry
        self._clock = environment.clock
        self._settings = environment.settings

    async def run(self) -> None:
        """List and watch what only plans read, until cancelled."""
        async with asyncio.TaskGroup() as group:
            firsts: list[Reflector[Any]] = [
                self._reflector(self.disruptions.watched(), self.disruptions),
                self._reflector(self.limits.watched_foreign(), self.limits.foreign),
                self._reflector(
                    namespaces.watched(), namespaces.LedgerNamespaces(self.ledger, lambda: None)
                ),
            ]
            for first in firsts:
                group.create_task(first.run(), name="plan watcher")
            for first in firsts:
                await first.synced.wait()
            own = asyncio.Event()
            watching = watch_when_installed(
                self._kube, self._reflector(self.limits.watched_own(), self.limits.own),
                self._settings.plans.pace.install_s, own, own.set,
            )  # fmt: skip
            group.create_task(watching, name="quota watcher")
            await own.wait()
            await self._pods_read.wait()
            self.read.set()

    def cluster_view(
        self, rules: ProposalRules, plans: list[Former], hints: Mapping[str, NodeHints],
        measured: Iterable[SmoothContainer] = (),
    ) -> Slices[ClusterView]:  # fmt: skip
        """The cluster as it is now, a node or a pod in each slice. A pod that comes or goes
        meanwhile, or while the view is read, is counted or not."""
        now = self._clock.time()
        nodes = tuple(self.nodes.known.values())
        kubefit = yield from KubeSchedulerFilters.in_slices(nodes, self._registry.resources)
        requests = _PodRequests(kubefit)
        for node in list(self.pods.groups()):
            for item in list(self.pods.group(node)) if node else ():
                kubefit.count(requests.of(item), node, 1)
                yield
        waiting = dict[str, WaitingPod]()
        for item in list(self.pods.group("")):
            one_waits = self.pods.waiting(item)
            if one_waits is not None:
                waiting[item.uid] = one_waits
            yield
        by_card = dict[str, dict[str, CardHint]]()
        for each in list(hints.values()):
            by_card[each.node] = {card.card: card for card in each.cards}
            yield
        return ClusterView(
            now=now,
            ledger=self.ledger,
            kubefit=kubefit,
            nodes=self.nodes.known,
            bound=self.pods.on_node,
            managed_resources=self._registry.resources,
            running=RunningPlanPods(self.pods),
            on=self.pods.running_on,
            waiting=waiting,
            disruptions=self.disruptions.all,
            hints=by_card,
            measured=measured,
            spent=spent(plans, rules.plan.move, rules.plan.budget, now),
            rules=rules.plan,
        )

    def _reflector(self, watched: ListWatch[T], handler: Handler[T]) -> Reflector[T]:
        return Reflector(self._kube, watched, handler, settings=self._settings.kube)


class _PodRequests:
    """What pods request of their nodes: worked out once for all that share a spec."""

    def __init__(self, kubefit: KubeSchedulerFilters) -> None:
        self._kubefit = kubefit
        self._known: dict[int, tuple[PodSpec, Amounts]] = {}
        """By the identity of the spec, which is held so that no other gets it."""

    def of(self, item: PlanPodSummary) -> Amounts:
        """Nothing where it cannot be read."""
        spec = item.shape.pod.spec
        if id(spec) not in self._known:
            self._known[id(spec)] = spec, self._read(item)
        return self._known[id(spec)][1]

    def _read(self, item: PlanPodSummary) -> Amounts:
        try:
            return self._kubefit.requests(item.shape.pod)
        except BadQuantity as e:
            name = item.pod.name
            _log.warning("pod counted as asking nothing of its node", pod=name, why=str(e))
            return {}
