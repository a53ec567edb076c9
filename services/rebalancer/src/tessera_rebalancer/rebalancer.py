"""A whole rebalancer in one event loop.

    async with open_rebalancer(world) as rebalancer:
        ...

It opens no sockets; `tessera_rebalancer.main` serves it. One process does for a cluster: two would
tell the same hints in turn, and nothing worse. While it is away pods are placed and limited as
ever; its last hints and bounds count for a minute and a half, then nobody goes by them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeVar

from tessera_core.ledger.ledger import Ledger
from tessera_core.reports.agents import AgentReports
from tessera_core.usage.hints import HintBuilder
from tessera_core.usage.smoothed import SmoothContainer
from tessera_core.usage.smoother import Smoother
from tessera_rebalancer.hint_publisher import HintPublisher, HintSources
from tessera_rebalancer.metrics import RebalancerMetrics
from tessera_rebalancer.plans.cluster_watch import ViewSettings
from tessera_rebalancer.plans.service import PlanEnvironment as PlanWorld
from tessera_rebalancer.plans.service import PlanService, open_plans
from tessera_rebalancer.pods import GrantedPodReader, GrantedPods
from tessera_rebalancer.settings import RebalancerSettings
from tessera_rebalancer.usage_listener import UsageConsumer
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.outbox import Outbox, open_outbox
from tessera_runtime.informers import grant_keys
from tessera_runtime.informers.grant_keys import GrantKeys
from tessera_runtime.informers.nodes import LedgerNodes
from tessera_runtime.kube.events import open_events
from tessera_runtime.kube.reflector import Handler, ListWatch, Reflector
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.report_doubts import DoubtedReports
from tessera_runtime.service import ServiceEnvironment

T = TypeVar("T")


class Rebalancer:
    """Hints, and the parts that others may want to see."""

    def __init__(self, world: ServiceEnvironment[RebalancerSettings], outbox: Outbox) -> None:
        """Use `open_rebalancer`."""
        settings, now = world.settings, asyncio.get_running_loop().time
        self._world = world
        self._cards = Ledger()
        self.keys, self.pods = GrantKeys(), GrantedPods()
        self.smoother = Smoother(settings.smoothing)
        self.metrics = MetricsRegistry("rebalancer")
        doubted = self.metrics.counter(
            "news_disbelieved", "Reports of agents that do not count", ("reason",)
        )
        self._reports = AgentReports(
            settings.bus.cluster, world.registry.vendors, DoubtedReports(doubted)
        )
        self.usage = UsageConsumer(self.smoother, self._reports, self.pods.grant_of, now)
        sources = HintSources(
            usage=self.usage, smoother=self.smoother, hinting=HintBuilder(settings.lending),
            pods=self.pods,
        )  # fmt: skip
        self.teller = HintPublisher(sources, outbox, settings.hints, settings.steps, now)
        RebalancerMetrics(self.metrics, self.teller, self.usage)
        self.counting = asyncio.Event()
        """Set once pods were read."""
        self.planning: PlanService | None = None

    def problem(self) -> str:
        """Why no hints are told, or no plans made, now; empty when they are."""
        if not self.keys.known.is_set():
            return "the scheduler's public keys have not been read yet"
        if not self.counting.is_set():
            return "pods have not been read yet"
        return "" if self.planning is None else self.planning.problem()

    def measured(self) -> list[SmoothContainer]:
        """Containers of which something was measured lately."""
        now = asyncio.get_running_loop().time()
        seen = (self.smoother.node(node, now) for node in self.smoother.nodes())
        return [one for node in seen if node for card in node.cards for one in card.containers]

    async def run(self) -> None:
        """Watch and tell, until cancelled."""
        world, settings = self._world, self._world.settings
        nodes = LedgerNodes(world.registry, self._cards, self._reports)
        reader = GrantedPodReader(
            world.registry, self._cards.fleet, lambda: self.keys.verifier,
            migration=settings.count.migration,
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            published = self._reflector(grant_keys.watched(settings.keys.namespace), self.keys)
            cards = self._reflector(nodes.watched(), nodes)
            group.create_task(published.run(), name="key watcher")
            group.create_task(cards.run(), name="node watcher")
            await cards.synced.wait()
            await self.keys.known.wait()
            watching = grant_keys.watch_with(
                self.keys, lambda: self._reflector(reader.watched(), self.pods), self.counting
            )
            group.create_task(watching, name="pod watcher")
            await self.counting.wait()
            listening = self.usage.listen(world.bus, settings.bus.cluster)
            group.create_task(listening, name="usage listener")  # it counts for known pods
            group.create_task(self.teller.run(), name="telling")

    def _reflector(self, watched: ListWatch[T], sink: Handler[T]) -> Reflector[T]:
        return Reflector(self._world.kube, watched, sink, settings=self._world.settings.kube)


@asynccontextmanager
async def open_rebalancer(
    world: ServiceEnvironment[RebalancerSettings],
) -> AsyncGenerator[Rebalancer]:
    """A rebalancer that tells hints and carries out plans until left."""
    settings = world.settings
    async with (
        open_outbox(
            world.bus, world.clock, "rebalancer", settings.instance, settings=settings.outbox
        ) as outbox,
        open_events(
            world.kube, settings.events, component="tessera-rebalancer", clock=world.clock
        ) as events,
    ):
        rebalancer = Rebalancer(world, outbox)
        plans = PlanWorld(
            kube=world.kube, clock=world.clock, registry=world.registry, outbox=outbox,
            events=events, metrics=rebalancer.metrics, settings=settings.plans,
            view=ViewSettings(
                kube=settings.kube, keys_namespace=settings.keys.namespace,
                migration=settings.count.migration,
            ),
            cluster=settings.bus.cluster, hints=lambda: rebalancer.teller.told,
            measured=rebalancer.measured,
        )  # fmt: skip
        async with (
            running_in_background(rebalancer.run(), "rebalancer"),
            open_plans(plans) as planning,
        ):
            rebalancer.planning = planning
            yield rebalancer
