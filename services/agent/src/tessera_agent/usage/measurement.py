"""Measures what containers use, every few seconds, and has published what follows from it: usage,
limits that do not hold, the first use of a card, shares held by pods that are gone, metrics. Files
of containers that are gone are removed afterwards, so that their last use has been read.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NoReturn

from msgspec.structs import replace

from tessera_agent.containers.closed_cards import ClosedCards
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.devices.monitor import DeviceMonitor
from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_agent.events import EventPublisher
from tessera_agent.metrics import AgentMetrics, GrantedAmounts, MetricsSnapshot
from tessera_agent.usage.file_cleanup import FileCleanup
from tessera_agent.usage.hami_core import Regioned, Regions
from tessera_agent.usage.occupied_shares import OccupiedShares
from tessera_agent.usage.sampler import MeasuredContainer, Moment, Sampler, measured_container
from tessera_agent.usage.usage_alerts import UsageAlerts
from tessera_runtime.clock import Clock
from tessera_runtime.shared_wakeups import next_multiple
from tessera_schema.messages.device_reports import NodeUsage

_FULL: Final = 100
_SECOND: Final = 1_000_000_000


class UsageMeasurement:
    """Measures all containers of the node."""

    def __init__(
        self, sampler: Sampler, regions: Regions, holdings: ContainerRegistry,
        devices: DeviceMonitor, annotation: CardsAnnotationWriter, closed: ClosedCards,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._sampler = sampler
        self._regions = regions
        self._holdings = holdings
        self._devices = devices
        self._annotation = annotation
        self._closed = closed
        self._clock = clock
        self._running: Mapping[ContainerKey, MeasuredContainer] = {}
        self._changes = -1
        """`ContainerRegistry.changes` when those that run were read last."""
        self._working = threading.Lock()

    async def measure(self) -> NodeUsage:
        """What containers used since the last measurement."""
        measured = running = self._running
        if self._changes != self._holdings.changes:
            self._changes = self._holdings.changes
            self._running = {
                h.key: measured_container(h)
                for h in self._holdings
                if h.stage is ContainerStage.RUNNING
            }
            # Those that ended since the last measurement are measured once more.
            measured = {**running, **self._running}
        others = [one for one in self._regions.running.all if one.key not in measured]
        # The loop's clock is read here alone: uvloop changes the loop when its time is read.
        began, waits_since = asyncio.get_running_loop().time(), time.monotonic()
        return await asyncio.to_thread(
            self._measure, measured, others, lambda: began + time.monotonic() - waits_since
        )

    def end(self) -> None:
        """Close what is open, once nothing is measured any more."""
        with self._working:
            self._sampler.end()

    def snapshot(self, usage: NodeUsage) -> MetricsSnapshot:
        """The figures for metrics after a measurement."""
        devices = self._devices
        return MetricsSnapshot(
            node=usage.node, cards=devices.latest.cards, usage=usage,
            peaks=self._sampler.recent_peaks(),
            held=self._holdings.charges(),
            requested=[_requested(h) for h in self._holdings if h.holds],
            problems=len(devices.state.problems),
            spoilt=self._sampler.spoilt + self._regions.spoilt, silent_polls=devices.silent_polls,
            overwritten=self._annotation.overwritten,
        )  # fmt: skip

    def _measure(
        self, measured: Mapping[ContainerKey, MeasuredContainer], others: Sequence[Regioned],
        now: Callable[[], float],
    ) -> NodeUsage:  # fmt: skip
        with self._working:
            return self._measure_now(measured, others, now)

    def _measure_now(
        self, measured: Mapping[ContainerKey, MeasuredContainer], others: Sequence[Regioned],
        now: Callable[[], float],
    ) -> NodeUsage:  # fmt: skip
        cards = self._devices.latest.cards
        # Not before: what containers use while this thread is waited for counts as used till now.
        at = Moment(at_s=now(), wall_ns=self._clock.time_ns())
        usage = self._sampler.sample(measured, cards, self._devices.readings, at)
        uses = self._regions.read_all(others, cards, at_s=at.at_s, now_s=at.wall_ns / _SECOND)
        loads = tuple(
            replace(load, reclaims=self._closed.reclaiming(load.card, at.at_s))
            for load in usage.cards
        )
        return replace(usage, containers=(*usage.containers, *uses), cards=loads)


class MeasurementLoop:
    """Measures every few seconds, and has the results published."""

    def __init__(
        self, measurement: UsageMeasurement, publisher: EventPublisher, alerts: UsageAlerts,
        occupied: OccupiedShares, cleanup: FileCleanup, metrics: AgentMetrics, *,
        interval_s: float,
    ) -> None:  # fmt: skip
        self._measurement = measurement
        self._publisher = publisher
        self._alerts = alerts
        self._occupied = occupied
        self._cleanup = cleanup
        self._metrics = metrics
        self._interval_s = interval_s
        self.latest: NodeUsage | None = None
        """The last measurement."""

    async def run(self) -> NoReturn:
        """Measure, for ever; what is not published yet is when it ends."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                due = next_multiple(loop.time(), self._interval_s)
                await self.measure()
                await asyncio.sleep(max(due - loop.time(), 0))
        finally:
            self._measurement.end()
            self._publisher.last_usage()

    async def measure(self) -> None:
        """Measure once."""
        usage = await self._measurement.measure()
        self._publisher.usage(usage)
        self._alerts.check(usage.containers)
        self._metrics.take_snapshot = partial(self._measurement.snapshot, usage)
        self._metrics.count(usage)
        self._occupied.publish()
        await self._cleanup.sweep()
        self.latest = usage


def _requested(held: Holding) -> GrantedAmounts:
    return GrantedAmounts(
        namespace=held.pod.namespace, pod=held.pod.name, container=held.key.container,
        cards=sum(share.cores_percent for share in held.shares) / _FULL,
        memory_bytes=sum(share.memory_bytes for share in held.shares),
    )  # fmt: skip
