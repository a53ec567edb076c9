"""Where lists and watches end: each kind of object goes to the books in its own way.

Objects are compared with what is known, never counted: a watch may tell a change twice.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.packing.host_capacity import HostCapacity
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.kube.reflector import WatchEventType
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.cache.device_states import DeviceStates
from tessera_scheduler.cache.in_flight import InFlightTracker
from tessera_scheduler.cache.nodes import NodeCache, NodeSummary
from tessera_scheduler.cache.pod_reader import PodReader, PodSummary
from tessera_scheduler.cache.pods import PodCache
from tessera_scheduler.cache.quotas import QuotaCache, QuotaSummary
from tessera_scheduler.cache.reservations import Reservations
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_scheduler.retry_queue import RetryQueue
from tessera_schema.kube import Custom


class HandlerTargets(Struct, frozen=True, kw_only=True):
    """Who is told."""

    ledger: Ledger
    registry: DialectRegistry
    reader: PodReader
    books: PodCache
    states: DeviceStates
    nodes: NodeCache
    limits: QuotaCache
    reservations: Reservations
    starts: InFlightTracker
    hosts: HostCapacity
    errands: RetryQueue
    measures: SchedulerMetrics
    steady: MonotonicClock
    freed: Callable[[], None]


class PodHandler:
    """Pods."""

    def __init__(self, told: HandlerTargets) -> None:
        self._told = told

    def on_list(self, items: list[PodSummary], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        self._told.measures.relists.labels("pods").inc()
        steady = self._told.steady
        self._told.books.relisted(items, steady.at(started), steady.at(now))
        self._told.reservations.relisted(items, steady.at(now))
        self._told.starts.relisted(items, steady.at(now))
        self._told.hosts.only(item.uid for item in items if _runs(item))
        for item in filter(_runs, items):
            self._told.hosts.hold(item.uid, item.node, item.host)

    def on_event(self, change: WatchEventType, item: PodSummary, now: float) -> None:
        """See `Handler.on_event`."""
        if change is WatchEventType.DELETED:
            self._told.books.deleted(item.uid)
            self._told.reservations.gone(item.uid)
            self._told.starts.gone(item.uid)
            self._told.hosts.release(item.uid)
        else:
            self._told.books.changed(item, self._told.steady.at(now))
            self._told.reservations.changed(item, self._told.steady.at(now))
            self._told.starts.changed(item, self._told.steady.at(now))
            if _runs(item):
                self._told.hosts.hold(item.uid, item.node, item.host)
            elif item.ended:
                self._told.hosts.release(item.uid)


def _runs(pod: PodSummary) -> bool:
    return bool(pod.node) and not pod.ended


class NodeHandler:
    """Nodes."""

    def __init__(self, told: HandlerTargets) -> None:
        self._told = told

    def on_list(self, items: list[NodeSummary], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        self._told.measures.relists.labels("nodes").inc()
        allocated = {item.name: item.allocated for item in items}
        self._told.starts.nodes(allocated, self._told.steady.at(now))
        for gone in self._told.nodes.relisted(items):
            self._told.states.node_gone(gone)
        self._told.hosts.nodes({item.name: item.host for item in items})

    def on_event(self, change: WatchEventType, item: NodeSummary, now: float) -> None:
        """See `Handler.on_event`."""
        if change is WatchEventType.DELETED:
            self._told.nodes.deleted(item.name)
            self._told.states.node_gone(item.name)
            self._told.starts.node_gone(item.name)
            self._told.hosts.node(item.name, None)
        else:
            self._told.starts.node(item.name, item.allocated, self._told.steady.at(now))
            self._told.nodes.changed(item)
            self._told.hosts.node(item.name, item.host)


class QuotaHandler:
    """Quota objects of one kind."""

    def __init__(self, kind: str, told: HandlerTargets) -> None:
        self._kind = kind
        self._told = told

    def on_list(self, items: list[QuotaSummary], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        self._told.measures.relists.labels(self._kind).inc()
        if self._told.limits.relisted(self._kind, items):
            self._told.freed()

    def on_event(self, change: WatchEventType, item: QuotaSummary, now: float) -> None:
        """See `Handler.on_event`."""
        limits = self._told.limits
        if limits.deleted(item) if change is WatchEventType.DELETED else limits.changed(item):
            self._told.freed()


class CustomResourceHandler:
    """Custom resources of one kind that describe nodes' cards; `look` is told whose changed."""

    def __init__(self, path: str, told: HandlerTargets, look: Callable[[str], None]) -> None:
        self._path = path
        self._told = told
        self._look = look

    def on_list(self, items: list[Custom], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        for name in self._told.nodes.customs_relisted(self._path, items):
            self._look(name)

    def on_event(self, change: WatchEventType, item: Custom, now: float) -> None:
        """See `Handler.on_event`."""
        if change is WatchEventType.DELETED:
            other = self._told.nodes.custom_deleted(self._path, item.metadata.name)
        else:
            other = self._told.nodes.custom_changed(self._path, item)
        if other:
            self._look(item.metadata.name)
