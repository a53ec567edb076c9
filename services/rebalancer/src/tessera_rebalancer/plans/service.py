"""Plans in one event loop: watches, judgements, and whoever carries plans out.

    async with open_plans(world) as plans:
        ...

One process does for a cluster. A second one would find the same plans; writes are guarded so that
no pod is evicted that a plan does not name. While it is away plans stand still, and what was
reserved for waiting pods falls by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.registry.registry import DialectRegistry as Dialects
from tessera_core.usage.smoothed import SmoothContainer
from tessera_rebalancer.plans import executor, planner
from tessera_rebalancer.plans.cluster_watch import ClusterWatch, ViewSettings
from tessera_rebalancer.plans.events import PlanEvents
from tessera_rebalancer.plans.executor import PlanExecutor
from tessera_rebalancer.plans.metrics import PlanMetrics
from tessera_rebalancer.plans.plan_store import PlanStore, watched
from tessera_rebalancer.plans.planner import RebalancePlanner
from tessera_rebalancer.plans.settings import PlanSettings
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.outbox import Outbox
from tessera_runtime.clock import Clock
from tessera_runtime.informers.installed_kinds import installed
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.events import EventRecorder
from tessera_runtime.kube.reflector import Reflector
from tessera_runtime.metrics import MetricsRegistry
from tessera_schema.messages.hints import NodeHints
from tessera_schema.plans import PLANS


class PlanEnvironment(Struct, frozen=True, kw_only=True):
    """What plans stand in."""

    kube: Kube
    clock: Clock
    registry: Dialects
    outbox: Outbox
    events: EventRecorder
    metrics: MetricsRegistry
    settings: PlanSettings
    view: ViewSettings
    cluster: str
    """Third token of subjects."""
    hints: Callable[[], Mapping[str, NodeHints]]
    """Of each node that is measured, the newest."""
    measured: Callable[[], Sequence[SmoothContainer]]
    """Containers of which something was measured lately."""


class PlanService:
    """The parts that others may want to see."""

    def __init__(self, world: PlanEnvironment) -> None:
        """Use `open_plans`."""
        settings = world.settings
        self._world = world
        view = replace(world.view, install_s=settings.pace.install_s)
        self.view = ClusterWatch(world.kube, world.registry, world.clock, view)
        self.plans = PlanStore(world.kube)
        teller = PlanEvents(world.outbox, world.events, world.cluster)
        self.judging = RebalancePlanner(
            planner.PlannerDependencies(
                plans=self.plans, view=self.view, teller=teller, clock=world.clock,
                settings=settings, hints=world.hints, measured=world.measured,
            )
        )  # fmt: skip
        self.executing = PlanExecutor(
            executor.ExecutorDependencies(
                kube=world.kube, plans=self.plans, teller=teller, clock=world.clock,
                pace=settings.pace, stale=self.judging.stale, contention=self.judging.contention,
            )
        )  # fmt: skip
        self.ready = asyncio.Event()
        """Set once plans are judged."""
        PlanMetrics(world.metrics, self.plans, self.judging)

    def problem(self) -> str:
        """Why no plans are made now; empty when they are, or are switched off."""
        if self.ready.is_set() or not self._world.settings.on:
            return ""
        if not self.view.read.is_set():
            return "what plans are made from has not been read yet"
        return "the definition of RebalancePlan is not installed, or its objects are not read yet"

    async def run(self) -> None:
        """Watch, judge and carry out, until cancelled."""
        world, look_s = self._world, self._world.settings.pace.install_s
        if not world.settings.on:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self.view.run(), name="plan view")
            await installed(world.kube, PLANS, look_s)
            reflector = Reflector(world.kube, watched(), self.plans, settings=world.view.kube)
            group.create_task(reflector.run(), name="plan watcher")
            await reflector.synced.wait()
            await self.view.read.wait()
            self.ready.set()
            group.create_task(self.executing.run(), name="carrying out")
            group.create_task(self.judging.run(), name="judging plans")


@asynccontextmanager
async def open_plans(world: PlanEnvironment) -> AsyncGenerator[PlanService]:
    """Plans that are proposed, judged and carried out until left."""
    planning = PlanService(world)
    async with running_in_background(planning.run(), "plans"):
        yield planning
