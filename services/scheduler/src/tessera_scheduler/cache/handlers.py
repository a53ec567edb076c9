"""Handlers of lists and watches: each kind of object goes to the caches in its own way.

Objects are compared with what is known, never counted: a watch may show a change twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tessera_core.placement.packing.host_capacity import HostCapacity
from tessera_core.slices import Slices, for_each
from tessera_runtime.kube.reflector import WatchEventType
from tessera_runtime.metrics import Counter
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.cache.agent_leases import AgentLeases
from tessera_scheduler.cache.device_states import DeviceStates
from tessera_scheduler.cache.in_flight import InFlightTracker
from tessera_scheduler.cache.nodes import NodeCache, NodeSummary
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.cache.pods import PodCache
from tessera_scheduler.cache.quotas import QuotaCache, QuotaSummary
from tessera_scheduler.cache.reservations import Reservations
from tessera_schema.kube import Custom


class PodFollower(Protocol):
    """Follows pods for other purposes than the ledger."""

    def on_pod_list(self, items: Sequence[PodSummary]) -> Slices[None]:
        """Take all pods, in slices."""
        ...

    def on_pod(self, item: PodSummary) -> None:
        """Take a pod that was added or modified."""
        ...

    def on_pod_gone(self, item: PodSummary) -> None:
        """Take a pod that was deleted."""
        ...


class PodHandler:
    """Pods go to the ledger, the node reservations, the pods in flight and the hosts' capacity."""

    def __init__(
        self,
        *,
        pod_cache: PodCache,
        reservations: Reservations,
        in_flight: InFlightTracker,
        hosts: HostCapacity,
        relists: Counter,
        clock: MonotonicClock,
        others: Sequence[PodFollower] = (),
    ) -> None:
        """`hosts` get what every running pod requests, with cards or without, `others` all pods
        after the ledger."""
        self._pod_cache = pod_cache
        self._reservations = reservations
        self._in_flight = in_flight
        self._hosts = hosts
        self._relists = relists.labels("pods")
        self._clock = clock
        self._others = others

    def on_list(self, items: list[PodSummary], started: float, now: float) -> Slices[None]:
        """Take all pods: what others may add meanwhile is compared with the list first, the ledger
        goes by when it got to know a pod."""
        self._relists.inc()
        at = self._clock.at(now)
        self._in_flight.keep(items)
        yield
        running = {item.uid for item in items if _runs(item)}
        yield
        self._hosts.only(running)
        yield
        yield from self._pod_cache.on_list(items, self._clock.at(started), at)
        yield
        self._reservations.on_list(items, at)
        yield
        yield from for_each(items, lambda item: self._hold(item, at))
        for other in self._others:
            yield from other.on_pod_list(items)

    def on_event(self, change: WatchEventType, item: PodSummary, now: float) -> None:
        """Take a pod that was added, modified or deleted."""
        if change is WatchEventType.DELETED:
            self._pod_cache.on_delete(item.uid)
            self._reservations.on_delete(item.uid)
            self._in_flight.on_delete(item.uid)
            self._hosts.release(item.uid)
            for other in self._others:
                other.on_pod_gone(item)
            return
        at = self._clock.at(now)
        self._pod_cache.on_update(item, at)
        self._reservations.on_update(item, at)
        self._hold(item, at)
        for other in self._others:
            other.on_pod(item)

    def _hold(self, item: PodSummary, at: float) -> None:
        self._in_flight.on_update(item, at)
        if _runs(item):
            self._hosts.hold(item.uid, item.node, item.host)
        elif item.ended:
            self._hosts.release(item.uid)


def _runs(pod: PodSummary) -> bool:
    return bool(pod.node) and not pod.ended


class NodeHandler:
    """Nodes go to the ledger, to what agents reported and renew, the pods in flight and the hosts'
    capacity."""

    def __init__(
        self,
        *,
        nodes: NodeCache,
        device_states: DeviceStates,
        agent_leases: AgentLeases,
        in_flight: InFlightTracker,
        hosts: HostCapacity,
        relists: Counter,
        clock: MonotonicClock,
    ) -> None:
        """`hosts` get what every node has for pods."""
        self._nodes = nodes
        self._device_states = device_states
        self._agent_leases = agent_leases
        self._in_flight = in_flight
        self._hosts = hosts
        self._relists = relists.labels("nodes")
        self._clock = clock

    def on_list(self, items: list[NodeSummary], started: float, now: float) -> Slices[None]:
        """Take all nodes."""
        self._relists.inc()
        allocated = {item.name: item.allocated for item in items}
        self._in_flight.on_node_list(allocated, self._clock.at(now))
        yield
        for gone in self._nodes.others(allocated.keys()):
            self._nodes.on_delete(gone)
            self._device_states.on_node_gone(gone)
            self._agent_leases.on_node_gone(gone)
        yield from for_each(items, self._nodes.on_update)
        yield from for_each(items, lambda it: self._agent_leases.on_node(it.name, it.heartbeats))
        yield from self._agent_leases.expire()
        yield
        self._hosts.nodes({item.name: item.host for item in items})

    def on_event(self, change: WatchEventType, item: NodeSummary, now: float) -> None:
        """Take a node that was added, modified or deleted."""
        if change is WatchEventType.DELETED:
            self._nodes.on_delete(item.name)
            self._device_states.on_node_gone(item.name)
            self._agent_leases.on_node_gone(item.name)
            self._in_flight.on_node_gone(item.name)
            self._hosts.node(item.name, None)
        else:
            self._in_flight.on_node(item.name, item.allocated, self._clock.at(now))
            self._nodes.on_update(item)
            self._agent_leases.on_node(item.name, item.heartbeats)
            self._hosts.node(item.name, item.host)


class QuotaHandler:
    """Quota objects of one kind go to the ledger's limits."""

    def __init__(
        self, kind: str, quotas: QuotaCache, pod_events: PodEvents, relists: Counter
    ) -> None:
        """That other limits count is published as `freed`."""
        self._kind = kind
        self._quotas = quotas
        self._pod_events = pod_events
        self._relists = relists.labels(kind)

    def on_list(self, items: list[QuotaSummary], started: float, now: float) -> None:
        """Take all quota objects of the kind."""
        self._relists.inc()
        if self._quotas.on_list(self._kind, items):
            self._pod_events.freed.publish()

    def on_event(self, change: WatchEventType, item: QuotaSummary, now: float) -> None:
        """Take a quota object that was added, modified or deleted."""
        deleted = change is WatchEventType.DELETED
        if self._quotas.on_delete(item) if deleted else self._quotas.on_update(item):
            self._pod_events.freed.publish()


class CustomResourceHandler:
    """Custom resources of one kind that describe nodes' cards."""

    def __init__(self, path: str, nodes: NodeCache, refresh: Callable[[str], None]) -> None:
        """`refresh` reads a node again whose description has changed."""
        self._path = path
        self._nodes = nodes
        self._refresh = refresh

    def on_list(self, items: list[Custom], started: float, now: float) -> None:
        """Take all objects of the kind."""
        for name in self._nodes.on_custom_list(self._path, items):
            self._refresh(name)

    def on_event(self, change: WatchEventType, item: Custom, now: float) -> None:
        """Take an object that was added, modified or deleted."""
        name = item.metadata.name
        deleted = change is WatchEventType.DELETED
        changed = (
            self._nodes.on_custom_delete(self._path, name)
            if deleted
            else self._nodes.on_custom_update(self._path, item)
        )
        if changed:
            self._refresh(name)
