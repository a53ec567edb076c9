"""A whole quota monitor in one event loop.

    async with open_quota(world) as quota:
        ...

It opens no sockets; `tessera_quota.main` serves it. One process does for a cluster: two would write
the same statuses in turn and tell everything twice, and nothing worse. While it is away quotas hold
all the same, statuses stand still, and grace goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NoReturn, TypeVar

from tessera_core.ledger.ledger import Ledger
from tessera_core.reports.agents import AgentReports
from tessera_quota.evaluation import EvaluatorDependencies, QuotaEvaluator
from tessera_quota.events import QuotaEvents
from tessera_quota.metrics import QuotaMetrics
from tessera_quota.pods import QuotaPodReader, QuotaPods
from tessera_quota.quota_objects import ForeignQuotas, QuotaReader
from tessera_quota.settings import QuotaSettings
from tessera_quota.status_writer import StatusWriter
from tessera_quota.usage import UsageListener
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.outbox import Outbox, open_outbox
from tessera_runtime.informers import grant_keys, namespaces
from tessera_runtime.informers.grant_keys import GrantKeys
from tessera_runtime.informers.installed_kinds import installed
from tessera_runtime.informers.nodes import LedgerNodes
from tessera_runtime.kube.events import EventRecorder, open_events
from tessera_runtime.kube.reflector import Handler, ListWatch, Reflector
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.report_doubts import DoubtedReports
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.grants import Grant

T = TypeVar("T")


class QuotaMonitor:
    """The parts that others may want to see."""

    def __init__(
        self, world: ServiceEnvironment[QuotaSettings], outbox: Outbox, events: EventRecorder
    ) -> None:
        """Use `open_quota`."""
        settings, now = world.settings, asyncio.get_running_loop().time
        self._world = world
        self.ledger, self.keys = Ledger(), GrantKeys()
        self.pods = QuotaPods(self.ledger)
        self.metrics = MetricsRegistry("quota")
        doubted = self.metrics.counter(
            "news_disbelieved", "Reports of agents that do not count", ("reason",)
        )
        self._reports = AgentReports(
            settings.bus.cluster, world.registry.vendors, DoubtedReports(doubted)
        )
        self.usage = UsageListener(self._reports, self._grant_of, now, settings.count.stale_s)
        self.judging = QuotaEvaluator(
            EvaluatorDependencies(
                ledger=self.ledger,
                pods=self.pods,
                usage=self.usage,
                settings=settings,
                teller=QuotaEvents(outbox, events, settings.bus.cluster),
                clock=world.clock,
                now=now,
            )
        )
        self.writer = StatusWriter(world.kube, self.judging, settings.status, now)
        QuotaMetrics(
            self.metrics, self.judging.objects, self.judging.statuses, self.ledger,
            lambda: {
                "status_write_failures": self.writer.failures,
                "usage_messages_unreadable": self.usage.unreadable,
            },
        )  # fmt: skip
        self.installed = asyncio.Event()
        """Set once AcceleratorQuota's definition was seen and its objects were read."""
        self.counting = asyncio.Event()
        """Set once pods were read."""

    def problem(self) -> str:
        """Why nothing is judged now; empty when it is."""
        if not self.keys.known.is_set():
            return "the scheduler's public keys have not been read yet"
        if not self.counting.is_set():
            return "pods have not been read yet"
        if not self.installed.is_set():
            return "the definition of AcceleratorQuota is not installed, or not read yet"
        return ""

    async def run(self) -> None:
        """Watch and judge, until cancelled."""
        world, settings = self._world, self._world.settings
        reader = QuotaReader(world.registry, settings.throttle)
        nodes = LedgerNodes(world.registry, self.ledger, self._reports)
        async with asyncio.TaskGroup() as group:
            known = self._reflector(grant_keys.watched(settings.keys.namespace), self.keys)
            cards = self._reflector(nodes.watched(), nodes)
            theirs = self._reflector(reader.watched_theirs(), ForeignQuotas(self.judging.objects))
            groups = self._reflector(
                namespaces.watched(), namespaces.LedgerNamespaces(self.ledger, lambda: None)
            )
            group.create_task(known.run(), name="key watcher")
            group.create_task(cards.run(), name="node watcher")
            group.create_task(theirs.run(), name="resource quota watcher")
            group.create_task(groups.run(), name="namespace watcher")
            for first in (cards, theirs, groups):
                await first.synced.wait()
            await self.keys.known.wait()
            group.create_task(self._watch_pods(), name="pod watcher")
            await self.counting.wait()
            bus = self.usage.listen(world.bus, settings.bus.cluster)
            group.create_task(bus, name="usage listener")  # it counts for known nodes and pods
            group.create_task(self._watch_own(reader), name="quota watcher")
            await self.installed.wait()
            group.create_task(self.judging.run(), name="judging")
            group.create_task(self.writer.run(), name="status writer")

    def _grant_of(self, uid: str) -> Grant | None:
        entry = self.ledger.entry(uid)
        return None if entry is None else entry.grant

    async def _watch_pods(self) -> NoReturn:
        """Pods, from a new list whenever other keys are published."""
        world = self._world
        reader = QuotaPodReader(
            world.registry, self.ledger, lambda: self.keys.verifier,
            migration=world.settings.count.migration,
        )  # fmt: skip
        await grant_keys.watch_with(
            self.keys, lambda: self._reflector(reader.watched(), self.pods), self.counting
        )

    async def _watch_own(self, reader: QuotaReader) -> NoReturn:
        """AcceleratorQuotas, once their definition is there."""
        world, watched = self._world, reader.watched()
        await installed(world.kube, watched.path, world.settings.count.look_s)
        reflector = self._reflector(watched, self.judging.objects)
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run(), name="quota reflector")
            await reflector.synced.wait()
            self.installed.set()
        raise AssertionError("watches never end")

    def _reflector(self, watched: ListWatch[T], sink: Handler[T]) -> Reflector[T]:
        return Reflector(self._world.kube, watched, sink, settings=self._world.settings.kube)


@asynccontextmanager
async def open_quota(world: ServiceEnvironment[QuotaSettings]) -> AsyncGenerator[QuotaMonitor]:
    """A quota monitor that judges until left."""
    settings = world.settings
    async with (
        open_outbox(
            world.bus, world.clock, "quota", settings.instance, settings=settings.outbox
        ) as outbox,
        open_events(
            world.kube, settings.events, component="tessera-quota", clock=world.clock
        ) as events,
    ):
        quota = QuotaMonitor(world, outbox, events)
        async with running_in_background(quota.run(), "quota"):
            yield quota
