"""Plans in one event loop: the watches that they are made from, the planner, and the executor.

One process is enough for a cluster. A second one would find the same plans; writes are guarded so
that no pod is evicted that a plan does not name. While it is away plans stand still, and what was
reserved for waiting pods lapses by itself.
"""

from __future__ import annotations

import asyncio

from tessera_rebalancer.plans.cluster_objects import ClusterObjects
from tessera_rebalancer.plans.cluster_watch import ClusterWatch
from tessera_rebalancer.plans.events import PlanEvents
from tessera_rebalancer.plans.executor import PlanExecutor
from tessera_rebalancer.plans.metrics import PlanMetrics
from tessera_rebalancer.plans.planner import MeasuredCluster, RebalancePlanner
from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime.bus.outbox import Outbox
from tessera_runtime.informers.installed_kinds import watch_when_installed
from tessera_runtime.kube.events import EventRecorder
from tessera_runtime.kube.reflector import Reflector
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.plans.plan_store import PlanStore, watched
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.plans import REBALANCING


class PlanService:
    """Everything that plans need. `run` it in one task."""

    def __init__(
        self,
        environment: ServiceEnvironment[RebalancerSettings],
        outbox: Outbox,
        events: EventRecorder,
        metrics: MetricsRegistry,
        usage: MeasuredCluster,
        objects: ClusterObjects,
    ) -> None:
        self._environment = environment
        self._settings = settings = environment.settings.plans
        self.watch = ClusterWatch(environment, objects)
        self.plans = PlanStore(environment.kube, REBALANCING)
        published = PlanEvents(outbox, events, environment.settings.bus.cluster)
        self.planner = RebalancePlanner(
            plans=self.plans,
            watch=self.watch,
            usage=usage,
            events=published,
            clock=environment.clock,
            settings=settings,
        )
        self.executor = PlanExecutor(
            environment.kube,
            self.plans,
            self.planner,
            published,
            clock=environment.clock,
            pace=settings.pace,
        )
        self._listed = asyncio.Event()
        """Set once RebalancePlans were read."""
        self.ready = asyncio.Event()
        """Set once plans are made."""
        PlanMetrics(metrics, self.plans, self.planner)

    def problem(self) -> str:
        """Why no plans are made now; empty when they are, or are switched off."""
        if self.ready.is_set() or not self._settings.on:
            return ""
        if not self.watch.read.is_set():
            return "what plans are made from has not been read yet"
        return "the definition of RebalancePlan is not installed, or its objects are not read yet"

    async def run(self) -> None:
        """Watch, propose and carry out, until cancelled."""
        kube, settings = self._environment.kube, self._settings
        if not settings.on:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watch.run(), name="plan view")
            reflector = Reflector(
                kube, watched(), self.plans, settings=self._environment.settings.kube
            )
            watching = watch_when_installed(kube, reflector, settings.pace.install_s, self._listed)
            group.create_task(watching, name="plan watcher")
            await self._listed.wait()
            await self.watch.read.wait()
            self.ready.set()
            group.create_task(self.executor.run(), name="plan executor")
            group.create_task(self.planner.run(), name="planner")
