"""Pods that kubelet is about to ask a device plugin for, and the nodes that equal ones wait for.

Kubelet's `Allocate` says how much of which resource a container asks for, and not which container.
So on a node where containers get their cards that way, two pods that ask for as much of one
resource never start at once: from the reservation of the first until kubelet has asked for it, the
node is left out for the others. Tessera's own plugin records the pod that it answered for, so the
first is out of the way as soon as kubelet reports it. Other plugins pick among pods that have not
started, so there it is in the way until one of its containers starts, or the plugin writes on the
pod that it gave the cards.

Where no node allocates nothing is computed. Nothing is added to the ledger: a node that is left out
too long costs time, never a card.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.registry.plugin_requests import (
    NOTHING_ALLOCATED,
    AllocatedResources,
    PluginAmounts,
    PluginRequests,
    StartingPod,
)
from tessera_schema.kube import Pod

_NONE: Final[Mapping[str, str]] = {}


class Overdue(Struct, frozen=True):
    """A pod that has not started in time."""

    uid: str
    pod: str
    node: str
    let_go: bool
    """Others wait for it no longer."""


class PodInFlight(Struct, frozen=True):
    """A pod that is bound and has not started."""

    uid: str
    pod: str
    """Namespace and name."""
    node: str


class _Flight(Struct, frozen=True, kw_only=True):
    uid: str
    pod: str
    node: str
    asks: PluginAmounts
    since: float
    bound: bool = False
    admitted: bool = False


class InFlightPods:
    """All pods that are on their way to a node, and the nodes where that matters."""

    def __init__(self, reading: PluginRequests, reserved_node: Callable[[str], str]) -> None:
        """`reserved_node` gives the node on which the ledger has cards for a pod (uid); empty =
        none."""
        self.reading = reading
        self._reserved_node = reserved_node
        self._nodes: dict[str, AllocatedResources] = {}
        self._flights: dict[str, _Flight] = {}
        self._by_ask: dict[tuple[str, int], dict[str, None]] = {}
        """Of those that are in the way where they are: what is asked -> uids."""
        self._let_go: set[str] = set()
        """Pods that others wait for no longer although they have not started."""

    def __len__(self) -> int:
        """Pods that are on their way."""
        return len(self._flights)

    def nodes(self) -> frozenset[str]:
        """The nodes whose containers get cards from a device plugin."""
        return frozenset(self._nodes)

    def on(self, nodes: Container[str]) -> list[PodInFlight]:
        """The bound pods on these nodes that have not started."""
        flights = self._flights.values()
        return [PodInFlight(f.uid, f.pod, f.node) for f in flights if f.bound and f.node in nodes]

    def put_node(self, node: str, allocated: AllocatedResources) -> bool:
        """How the node's containers get cards; True when that was otherwise before."""
        before = self._nodes.get(node, NOTHING_ALLOCATED)
        if before is allocated or before == allocated:
            return False
        there = [flight for flight in self._flights.values() if flight.node == node]
        for flight in there:
            self._clear(flight)
        if allocated:
            self._nodes[node] = allocated
        else:
            del self._nodes[node]
        for flight in there:
            self._block(flight)
        return True

    def remove_node(self, node: str) -> None:
        """The node is gone. Its pods are removed one by one, as they go."""
        self.put_node(node, NOTHING_ALLOCATED)

    def reserve(self, pod: Pod, node: str, now: float) -> None:
        """The pod is to be bound to the node; it counts while the ledger has its cards there."""
        if node in self._nodes:
            asks = self.reading.requests(pod)
            self._put(_Flight(uid=pod.metadata.uid, pod=pod.name, node=node, asks=asks, since=now))

    def observe(self, uid: str, pod: str, node: str, start: StartingPod, now: float) -> bool:
        """The pod is bound and has not started; True when another pod need not wait any more."""
        if uid in self._let_go:
            return False
        known = self._flights.get(uid)
        since = known.since if known is not None and known.bound else now
        now_known = _Flight(
            uid=uid, pod=pod, node=node, asks=start.asks, since=since, bound=True,
            admitted=start.admitted,
        )  # fmt: skip
        if now_known == known:
            return False
        self._put(now_known)
        return known is not None and self._is_in_the_way(known) > self._is_in_the_way(now_known)

    def drop(self, uid: str) -> bool:
        """The pod has started or is gone; True when another pod need not wait any more."""
        self._let_go.discard(uid)
        known = self._flights.get(uid)
        return known is not None and self._drop(known)

    def keep(self, uids: frozenset[str]) -> bool:
        """Of the bound pods only these are there and have not started."""
        over = [f for f in self._flights.values() if f.bound and f.uid not in uids]
        self._let_go &= uids
        return sum(self._drop(flight) for flight in over) > 0

    def closed_to(self, pod: Pod) -> Mapping[str, str]:
        """The nodes that the pod must leave alone for now, with the pod that it waits for."""
        if not self._nodes:
            return _NONE
        closed: dict[str, str] = {}
        for ask in self.reading.requests(pod):
            for other in self._by_ask.get(ask, ()):
                flight = self._flights[other]
                if other != pod.metadata.uid and self._is_there(flight):
                    closed.setdefault(flight.node, _reason(flight, ask))
        return closed

    def expire(self, now: float, longest_s: float) -> Sequence[Overdue]:
        """Those that have not started `longest_s` seconds after they were observed bound.

        Kubelet has asked for one that it reported, so that others wait for it no longer: a pod
        whose image cannot be had must not keep a node to itself. One that kubelet has not reported
        is still to be asked for, and is waited for.
        """
        for flight in list(self._flights.values()):
            if not self._is_there(flight):
                self._drop(flight)
        late = [f for f in self._flights.values() if f.bound and now - f.since > longest_s]
        overdue = []
        for flight in late:
            if flight.node in self._nodes:
                overdue.append(Overdue(flight.uid, flight.pod, flight.node, flight.admitted))
            if flight.admitted:
                self._drop(flight)
                self._let_go.add(flight.uid)
            else:
                self._put(replace(flight, since=now))
        return overdue

    def _is_there(self, flight: _Flight) -> bool:
        return flight.bound or self._reserved_node(flight.uid) == flight.node

    def _waited_for(self, flight: _Flight, name: str) -> bool:
        allocated = self._nodes.get(flight.node)
        if allocated is None:
            return False
        return name in allocated.by_own_plugin or (
            name in allocated.by_agent and not flight.admitted
        )

    def _is_in_the_way(self, flight: _Flight) -> bool:
        return any(self._waited_for(flight, name) for name, _ in flight.asks)

    def _put(self, flight: _Flight) -> None:
        known = self._flights.get(flight.uid)
        if known is not None:
            self._drop(known)
        self._flights[flight.uid] = flight
        self._block(flight)

    def _drop(self, flight: _Flight) -> bool:
        del self._flights[flight.uid]
        self._clear(flight)
        return self._is_in_the_way(flight)

    def _block(self, flight: _Flight) -> None:
        """Put it in the way of others, if it is."""
        for ask in flight.asks:
            if self._waited_for(flight, ask[0]):
                self._by_ask.setdefault(ask, {})[flight.uid] = None

    def _clear(self, flight: _Flight) -> None:
        """Take it out of their way."""
        for ask in flight.asks:
            others = self._by_ask.get(ask, {})
            others.pop(flight.uid, None)
            if not others:
                self._by_ask.pop(ask, None)


def _reason(flight: _Flight, ask: tuple[str, int]) -> str:
    name, amount = ask
    return (
        f"{flight.pod} is starting there and asks for as much, {name}: {amount}, and kubelet does "
        "not tell the device plugin which container it asks for"
    )
