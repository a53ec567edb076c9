"""A whole rebalancer in one event loop.

    async with open_rebalancer(environment) as rebalancer:
        ...

It opens no sockets; `tessera_rebalancer.main` serves it. One process is enough for a cluster: two
would publish the same hints in turn, and nothing worse. While it is away pods are placed and
limited as ever; its last hints and bounds count for a minute and a half, and for nothing after
that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from tessera_core.reports.agents import AgentReports
from tessera_core.usage.hints import HintBuilder
from tessera_core.usage.smoothed import SmoothContainer
from tessera_core.usage.smoother import Smoother
from tessera_rebalancer.hint_publisher import HintPublisher
from tessera_rebalancer.metrics import RebalancerMetrics
from tessera_rebalancer.plans.cluster_objects import ClusterObjects
from tessera_rebalancer.plans.service import PlanService
from tessera_rebalancer.settings import RebalancerSettings
from tessera_rebalancer.usage_listener import UsageConsumer
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.outbox import Outbox
from tessera_runtime.kube.events import EventRecorder
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.report_doubts import DoubtedReports
from tessera_runtime.service import ServiceEnvironment, open_publishers
from tessera_schema.messages.hints import NodeHints

T = TypeVar("T")


class Rebalancer:
    """Watches, the hints that are made from them, and plans."""

    def __init__(
        self,
        environment: ServiceEnvironment[RebalancerSettings],
        outbox: Outbox,
        events: EventRecorder,
    ) -> None:
        """Use `open_rebalancer`."""
        settings, now = environment.settings, asyncio.get_running_loop().time
        self._environment = environment
        self.metrics = MetricsRegistry("rebalancer")
        doubted = self.metrics.counter(
            "news_disbelieved", "Reports of agents that do not count", ("reason",)
        )
        reports = AgentReports(
            settings.bus.cluster, environment.registry.vendors, DoubtedReports(doubted)
        )
        self.objects = ClusterObjects(environment, reports)
        pods = self.objects.granted
        self.usage = UsageConsumer(Smoother(settings.smoothing), reports, pods.grant_of, now)
        self.publisher = HintPublisher(
            usage=self.usage,
            builder=HintBuilder(settings.lending),
            pods=pods,
            outbox=outbox,
            settings=settings.hints,
            steps=settings.steps,
            now=now,
        )
        RebalancerMetrics(self.metrics, self.publisher, self.usage)
        self.plans = PlanService(environment, outbox, events, self.metrics, self, self.objects)

    @property
    def hints(self) -> Mapping[str, NodeHints]:
        """The newest of each node that is measured."""
        return self.publisher.published

    @property
    def measured(self) -> Iterable[SmoothContainer]:
        """Containers of which something was measured lately, at each time that they are read."""
        return self.usage.containers

    def problem(self) -> str:
        """Why no hints are published, or no plans made, now; empty when they are."""
        if not self.objects.keys.known.is_set():
            return "the scheduler's public keys have not been read yet"
        if not self.objects.pods_read.is_set():
            return "pods have not been read yet"
        return self.plans.problem()

    async def read(self) -> None:
        """Wait until all that it keeps of the cluster was read."""
        await self.objects.pods_read.wait()
        if self._environment.settings.plans.on:
            await self.plans.watch.read.wait()

    async def run(self) -> None:
        """Watch and publish, until cancelled."""
        environment, settings = self._environment, self._environment.settings
        async with asyncio.TaskGroup() as group:
            group.create_task(self.objects.run(), name="cluster watcher")
            await self.objects.pods_read.wait()
            receiving = self.usage.listen(environment.bus, settings.bus.cluster)
            group.create_task(receiving, name="usage listener")  # it counts for known pods
            group.create_task(self.publisher.run(), name="hint publisher")


@asynccontextmanager
async def open_rebalancer(
    environment: ServiceEnvironment[RebalancerSettings],
) -> AsyncGenerator[Rebalancer]:
    """A rebalancer that publishes hints and carries out plans until left."""
    instance = environment.settings.instance
    async with open_publishers(environment, "rebalancer", instance) as (outbox, events):
        rebalancer = Rebalancer(environment, outbox, events)
        async with (
            running_in_background(rebalancer.run(), "rebalancer"),
            running_in_background(rebalancer.plans.run(), "plans"),
        ):
            yield rebalancer
