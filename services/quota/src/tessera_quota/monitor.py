"""A whole quota monitor in one event loop.

    async with open_quota(environment) as quota:
        ...

It opens no sockets; `tessera_quota.main` serves it. One process is enough for a cluster: two would
write the same statuses in turn and publish each event twice, and nothing worse. While it is away
quotas hold all the same, statuses stand still, and grace goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NoReturn, TypeVar

from tessera_core.ledger.ledger import Ledger
from tessera_core.reports.agents import AgentReports
from tessera_quota.evaluation import QuotaEvaluator
from tessera_quota.events import QuotaEvents
from tessera_quota.metrics import QuotaMetrics
from tessera_quota.pods import QuotaPods, summary
from tessera_quota.quota_objects import ForeignQuotas, QuotaReader
from tessera_quota.settings import QuotaSettings
from tessera_quota.status_writer import StatusWriter
from tessera_quota.usage import UsageListener
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.outbox import Outbox
from tessera_runtime.informers import grant_keys, namespaces
from tessera_runtime.informers.grant_keys import GrantKeys
from tessera_runtime.informers.installed_kinds import watch_when_installed
from tessera_runtime.informers.nodes import LedgerNodes
from tessera_runtime.informers.pods import PodSummaryReader
from tessera_runtime.kube.events import EventRecorder
from tessera_runtime.kube.reflector import Handler, ListWatch, Reflector
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.report_doubts import DoubtedReports
from tessera_runtime.service import ServiceEnvironment, open_publishers
from tessera_schema.grants import Grant

T = TypeVar("T")


class QuotaMonitor:
    """Watches, the ledger, and the evaluation that is made from them."""

    def __init__(
        self, environment: ServiceEnvironment[QuotaSettings], outbox: Outbox, events: EventRecorder
    ) -> None:
        """Use `open_quota`."""
        settings, now = environment.settings, asyncio.get_running_loop().time
        self._environment = environment
        self.ledger, self.keys = Ledger(), GrantKeys()
        self.pods = QuotaPods(self.ledger)
        self.metrics = MetricsRegistry("quota")
        doubted = self.metrics.counter(
            "news_disbelieved", "Reports of agents that do not count", ("reason",)
        )
        self._reports = AgentReports(
            settings.bus.cluster, environment.registry.vendors, DoubtedReports(doubted)
        )
        self.usage = UsageListener(self._reports, self._grant_of, now, settings.count.stale_s)
        self.evaluator = QuotaEvaluator(
            ledger=self.ledger,
            pods=self.pods,
            usage=self.usage,
            settings=settings,
            events=QuotaEvents(outbox, events, settings.bus.cluster),
            clock=environment.clock,
            now=now,
        )
        self.writer = StatusWriter(environment.kube, self.evaluator, settings.status, now)
        QuotaMetrics(
            self.metrics, self.evaluator.objects, self.evaluator.statuses, self.ledger,
            lambda: {
                "status_write_failures": self.writer.failures,
                "usage_messages_unreadable": self.usage.unreadable,
            },
        )  # fmt: skip
        self.installed = asyncio.Event()
        """Set once AcceleratorQuota is installed and its objects were read."""
        self.counting = asyncio.Event()
        """Set once pods were read."""

    def problem(self) -> str:
        """Why quotas are not evaluated now; empty when they are."""
        if not self.keys.known.is_set():
            return "the scheduler's public keys have not been read yet"
        if not self.counting.is_set():
            return "pods have not been read yet"
        if not self.installed.is_set():
            return "the definition of AcceleratorQuota is not installed, or not read yet"
        return ""

    async def run(self) -> None:
        """Watch and evaluate, until cancelled."""
        environment, settings = self._environment, self._environment.settings
        reader = QuotaReader(environment.registry, settings.throttle)
        nodes = LedgerNodes(environment.registry, self.ledger, self._reports)
        async with asyncio.TaskGroup() as group:
            known = self._reflector(grant_keys.watched(settings.keys.namespace), self.keys)
            cards = self._reflector(nodes.watched(), nodes)
            foreign = self._reflector(
                reader.watched_foreign(), ForeignQuotas(self.evaluator.objects)
            )
            groups = self._reflector(
                namespaces.watched(), namespaces.LedgerNamespaces(self.ledger, lambda: None)
            )
            group.create_task(known.run(), name="key watcher")
            group.create_task(cards.run(), name="node watcher")
            group.create_task(foreign.run(), name="resource quota watcher")
            group.create_task(groups.run(), name="namespace watcher")
            for first in (cards, foreign, groups):
                await first.synced.wait()
            await self.keys.known.wait()
            group.create_task(self._watch_pods(), name="pod watcher")
            await self.counting.wait()
            bus = self.usage.listen(environment.bus, settings.bus.cluster)
            group.create_task(bus, name="usage listener")  # it counts for known nodes and pods
            own = self._reflector(reader.watched(), self.evaluator.objects)
            look_s = settings.count.look_s
            watching = watch_when_installed(environment.kube, own, look_s, self.installed)
            group.create_task(watching, name="quota watcher")
            await self.installed.wait()
            group.create_task(self.evaluator.run(), name="quota evaluation")
            group.create_task(self.writer.run(), name="status writer")

    def _grant_of(self, uid: str) -> Grant | None:
        entry = self.ledger.entry(uid)
        return None if entry is None else entry.grant

    async def _watch_pods(self) -> NoReturn:
        """Pods, from a new list whenever other keys are published."""
        environment = self._environment
        reader = PodSummaryReader(
            environment.registry, self.ledger.fleet, self.keys, summary,
            migration=environment.settings.count.migration,
        )  # fmt: skip
        await grant_keys.watch_with(
            self.keys, lambda: self._reflector(reader.list_watch(), self.pods), self.counting
        )

    def _reflector(self, watched: ListWatch[T], handler: Handler[T]) -> Reflector[T]:
        return Reflector(
            self._environment.kube, watched, handler, settings=self._environment.settings.kube
        )


@asynccontextmanager
async def open_quota(
    environment: ServiceEnvironment[QuotaSettings],
) -> AsyncGenerator[QuotaMonitor]:
    """A quota monitor that evaluates quotas until left."""
    instance = environment.settings.instance
    async with open_publishers(environment, "quota", instance) as (outbox, events):
        quota = QuotaMonitor(environment, outbox, events)
        async with running_in_background(quota.run(), "quota"):
            yield quota
