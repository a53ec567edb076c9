"""The cluster as plans see it: the nodes and pods that hints are made from too, and what only
plans read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from tessera_core.kube.quantity import BadQuantity
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.rebalance.cluster_view import ClusterView, WaitingPod
from tessera_core.rebalance.movable_pods import RunningPod
from tessera_core.rebalance.plan_budget import Former, spent
from tessera_core.rebalance.proposals import ProposalRules
from tessera_core.slices import Slices
from tessera_core.usage.smoothed import SmoothContainer
from tessera_rebalancer.plans.cluster_objects import ClusterObjects
from tessera_rebalancer.plans.quotas import PlanQuotas
from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime import logs
from tessera_runtime.informers import namespaces
from tessera_runtime.informers.disruption_budgets import DisruptionBudgets
from tessera_runtime.informers.installed_kinds import watch_when_installed
from tessera_runtime.kube.reflector import Handler, ListWatch, Reflector
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.kube import Pod
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
        measured: Sequence[SmoothContainer] = (),
    ) -> Slices[ClusterView]:  # fmt: skip
        """The cluster as it is now, a node or a pod in each slice. A pod that comes or goes
        meanwhile is counted or not."""
        now = self._clock.time()
        nodes = tuple(self.nodes.known.values())
        kubefit = yield from KubeSchedulerFilters.in_slices(nodes, self._registry.resources)
        running, on = dict[str, RunningPod](), dict[str, list[RunningPod]]()
        for node in list(self.pods.groups()):
            for item in list(self.pods.group(node)) if node else ():
                _count(kubefit, item.pod, node)
                one = self.pods.running(item)
                if one is not None:
                    running[item.uid] = one
                    on.setdefault(node, []).append(one)
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
            running=running,
            on=on,
            waiting=waiting,
            disruptions=self.disruptions.all,
            hints=by_card,
            measured=measured,
            spent=spent(plans, rules.plan.move, rules.plan.budget, now),
            rules=rules.plan,
        )

    def _reflector(self, watched: ListWatch[T], handler: Handler[T]) -> Reflector[T]:
        return Reflector(self._kube, watched, handler, settings=self._settings.kube)


def _count(kubefit: KubeSchedulerFilters, pod: Pod, node: str) -> None:
    try:
        kubefit.take(pod, node)
    except BadQuantity as e:
        _log.warning("pod counted as asking nothing of its node", pod=pod.name, why=str(e))
