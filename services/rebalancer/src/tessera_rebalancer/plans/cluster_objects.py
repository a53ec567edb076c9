"""Nodes, pods and the keys that grants are verified with: watched and held once, for hints and for
plans.

A pod's grant is verified once, and is one object wherever it is read. What plans alone need of the
cluster is watched by `cluster_watch`.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from msgspec import Struct

from tessera_core.ledger.ledger import Ledger
from tessera_core.registry import kube_scheduler_config
from tessera_core.reports.agents import AgentReports
from tessera_core.shared_values import SharedValues
from tessera_core.slices import Slices
from tessera_rebalancer import pods as granted_pods
from tessera_rebalancer.plans import pod_summary as plan_pods
from tessera_rebalancer.plans.nodes import PlanNodes
from tessera_rebalancer.plans.pod_summary import PlanPodSummary
from tessera_rebalancer.plans.pods import PlanPods
from tessera_rebalancer.pods import GrantedPods, GrantedPodSummary
from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime.informers import grant_keys
from tessera_runtime.informers.grant_keys import GrantKeys
from tessera_runtime.informers.pods import (
    BOUND,
    DecodedPod,
    PodSummaryReader,
    without_injections,
)
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import Handler, ListWatch, Reflector, WatchEventType
from tessera_runtime.service import ServiceEnvironment

T = TypeVar("T")


class WatchedPod(Struct, frozen=True):
    """One pod."""

    granted: GrantedPodSummary
    """As hints see it."""
    planned: PlanPodSummary | None
    """As plans see it; None where they are off."""


class ClusterObjects:
    """The cluster's nodes and pods. `run` fills it."""

    def __init__(
        self,
        environment: ServiceEnvironment[RebalancerSettings],
        reports: AgentReports | None = None,
    ) -> None:
        """`reports`, if any, are given the cards and agents of each node."""
        self.ledger = Ledger()
        """Nodes and their cards, and where plans are on who holds what."""
        self.keys = GrantKeys()
        self.granted = GrantedPods()
        self.planned = PlanPods(self.ledger)
        """Empty where plans are off."""
        self._shared = SharedValues()
        self.nodes = PlanNodes(environment.registry, self.ledger, self._shared, reports)
        self.pods_read = asyncio.Event()
        """Set once pods were read."""
        self._environment = environment
        self._plans = environment.settings.plans.on
        self._profiles = frozenset(kube_scheduler_config.profiles(environment.registry))
        self.reader = PodSummaryReader(
            environment.registry, self.ledger.fleet, self.keys, self._summary,
            migration=environment.settings.count.migration,
        )  # fmt: skip

    async def run(self) -> None:
        """List and watch, until cancelled."""
        settings = self._environment.settings
        pods = self.reader.list_watch(paths.LIVING if self._plans else BOUND)
        async with asyncio.TaskGroup() as group:
            keys = self._reflector(grant_keys.watched(settings.keys.namespace), self.keys)
            nodes = self._reflector(self.nodes.watched(), self.nodes)
            group.create_task(keys.run(), name="key watcher")
            group.create_task(nodes.run(), name="node watcher")
            await nodes.synced.wait()
            await self.keys.known.wait()
            await grant_keys.watch_with(
                self.keys, lambda: self._reflector(pods, self), self.pods_read
            )

    def on_list(self, items: list[WatchedPod], started: float, now: float) -> Slices[None]:
        """See `Handler.on_list`; of pods."""
        yield from self.granted.on_list([item.granted for item in items], started, now)
        if self._plans:
            planned = [item.planned for item in items if item.planned is not None]
            yield from self.planned.on_list(planned, started, now)

    def on_event(self, change: WatchEventType, item: WatchedPod, now: float) -> None:
        """See `Handler.on_event`; of pods."""
        self.granted.on_event(change, item.granted, now)
        if item.planned is not None:
            self.planned.on_event(change, item.planned, now)

    def _summary(self, decoded: DecodedPod) -> WatchedPod:
        whole = decoded.grant
        kept, known = without_injections(whole), self.granted.grant_of(decoded.uid)
        if kept == known:
            kept = known
        registry, shared = self._environment.registry, self._shared
        return WatchedPod(
            granted_pods.summary(decoded, whole, kept, registry, shared),
            plan_pods.summary(decoded, kept, self._profiles, shared) if self._plans else None,
        )

    def _reflector(self, watched: ListWatch[T], handler: Handler[T]) -> Reflector[T]:
        environment = self._environment
        return Reflector(environment.kube, watched, handler, settings=environment.settings.kube)
