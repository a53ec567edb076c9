"""The cluster as plans see it, kept up to date by watches of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

from msgspec import Struct

from tessera_core.kube.quantity import BadQuantity
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
from tessera_core.rebalance.cluster_view import ClusterView
from tessera_core.rebalance.plan_budget import Former, spent
from tessera_core.rebalance.proposals import ProposalRules
from tessera_core.registry.registry import DialectRegistry
from tessera_core.usage.smoothed import SmoothContainer
from tessera_rebalancer.plans.nodes import Disruptions, PlanNodes
from tessera_rebalancer.plans.pod_reader import PlanPodReader
from tessera_rebalancer.plans.pods import PlanPods
from tessera_rebalancer.plans.quotas import PlanQuotas
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.informers import grant_keys, namespaces
from tessera_runtime.informers.grant_keys import GrantKeys
from tessera_runtime.informers.installed_kinds import installed
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.reflector import Handler, ListWatch, Reflector
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.kube import Pod
from tessera_schema.messages.hints import CardHint, NodeHints

T = TypeVar("T")

_log: Final = logs.named("tessera.rebalancer.plans")
_AT_ONCE: Final = 500
"""Pods counted before others on the loop have their turn: some milliseconds."""


class ViewSettings(Struct, frozen=True, kw_only=True):
    """What is read, and where."""

    kube: KubeSettings = KubeSettings()
    keys_namespace: str = "tessera-system"
    """Where the scheduler publishes the keys that grants are verified with."""
    migration: bool = False
    """Count what other systems wrote on pods."""
    install_s: float = 60.0
    """Seconds between two looks for a kind that is not installed."""


class ClusterWatch:
    """Pods, nodes, quotas, namespaces and budgets."""

    def __init__(
        self, kube: Kube, registry: DialectRegistry, clock: Clock, settings: ViewSettings
    ) -> None:
        """`run` fills it."""
        self.ledger = Ledger()
        self.pods = PlanPods(self.ledger)
        self.nodes = PlanNodes(registry, self.ledger)
        self.limits = PlanQuotas(registry, self.ledger)
        self.disruptions = Disruptions()
        self.keys = GrantKeys()
        self.read = asyncio.Event()
        """Set once everything was read."""
        self._kube = kube
        self._registry = registry
        self._clock = clock
        self._settings = settings

    async def run(self) -> None:
        """Watch, until cancelled."""
        settings = self._settings
        reader = PlanPodReader(
            self._registry, self.ledger, lambda: self.keys.verifier, migration=settings.migration
        )
        pods_read = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            firsts: list[Reflector[Any]] = [
                self._reflector(grant_keys.watched(settings.keys_namespace), self.keys),
                self._reflector(self.nodes.watched(), self.nodes),
                self._reflector(self.disruptions.watched(), self.disruptions),
                self._reflector(self.limits.watched_theirs(), self.limits.theirs),
                self._reflector(
                    namespaces.watched(), namespaces.LedgerNamespaces(self.ledger, lambda: None)
                ),
            ]
            for first in firsts:
                group.create_task(first.run(), name="plan watcher")
            for first in firsts:
                await first.synced.wait()
            own = asyncio.Event()
            group.create_task(self._watch_own(own), name="quota watcher")
            await own.wait()
            await self.keys.known.wait()
            watching = grant_keys.watch_with(
                self.keys, lambda: self._reflector(reader.watched(), self.pods), pods_read
            )
            group.create_task(watching, name="pod watcher")
            await pods_read.wait()
            self.read.set()

    async def situation(
        self, rules: ProposalRules, plans: list[Former], hints: Mapping[str, NodeHints],
        measured: Sequence[SmoothContainer],
    ) -> ClusterView:  # fmt: skip
        """This moment."""
        now = self._clock.time()
        running, waiting = self.pods.running(), self.pods.waiting()
        kubefit = KubeSchedulerFilters(
            tuple(self.nodes.known.values()), (), self._registry.resources
        )
        for number, pod in enumerate(self.pods.all_bound(), 1):
            _take(kubefit, pod)
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        return ClusterView(
            now=now,
            ledger=self.ledger,
            kubefit=kubefit,
            nodes=self.nodes.known,
            bound=self.pods.bound,
            ours=self._registry.resources,
            running=running,
            waiting=waiting,
            disruptions=self.disruptions.all,
            hints=_by_card(hints),
            measured=measured,
            spent=spent(plans, rules.plan.move, rules.plan.budget, now),
            rules=rules.plan,
        )

    async def _watch_own(self, settled: asyncio.Event) -> NoReturn:
        """AcceleratorQuotas, once their definition is there; `settled` once that is known."""
        watched = self.limits.watched_own()
        await installed(self._kube, watched.path, self._settings.install_s, settled.set)
        reflector = self._reflector(watched, self.limits.own)
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run(), name="quota reflector")
            await reflector.synced.wait()
            settled.set()
        raise AssertionError("watches never end")

    def _reflector(self, watched: ListWatch[T], sink: Handler[T]) -> Reflector[T]:
        return Reflector(self._kube, watched, sink, settings=self._settings.kube)


def _take(kubefit: KubeSchedulerFilters, pod: Pod) -> None:
    try:
        kubefit.take(pod, pod.spec.node_name)
    except BadQuantity as e:
        _log.warning("pod counted as asking nothing of its node", pod=pod.name, why=str(e))


def _by_card(hints: Mapping[str, NodeHints]) -> dict[str, dict[str, CardHint]]:
    return {told.node: {card.card: card for card in told.cards} for told in hints.values()}
