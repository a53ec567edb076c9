"""Takes in what is read of a cluster, and puts it into rows (`tessera_core.occupancy`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, NoReturn

import msgspec

from tessera_core.occupancy.occupancy import Occupancy
from tessera_core.occupancy.summaries import CardNode, CardPod, read_node, read_pod
from tessera_core.registry.registry import DialectRegistry
from tessera_core.reports.agents import AgentReports
from tessera_core.reports.doubts import Doubt, Doubts
from tessera_core.reports.usage import counting
from tessera_core.slices import Slices, at_once, for_each
from tessera_runtime.bus.api import Bus, Message
from tessera_runtime.kube.reflector import WatchEventType
from tessera_schema import subjects
from tessera_schema.messages.device_reports import NodeUsage

MOST_NOTICES: Final = 8
MOST_SOURCES: Final = 8
"""Agents whose messages on one node's subject wait to be counted: a vendor has one there."""


class ClusterFeed:
    """One cluster. Reports count as every service counts them (`tessera_core.reports`)."""

    def __init__(self, registry: DialectRegistry) -> None:
        """Nothing is known yet."""
        self.occupancy = Occupancy()
        self.registry = registry
        self.doubted = 0
        """Reports, or parts of them, that do not count."""
        self.messages = 0
        self.usage_came = asyncio.Event()
        """Set with each message of usage."""
        self.problem = ""
        """Why use is not known; empty = nothing is wrong."""
        self.notices: list[str] = []
        """Objects that were left out, and why; the first few."""
        self._reports: AgentReports | None = None
        self._states: AgentReports | None = None
        self._nodes: dict[str, CardNode] = {}
        self._cluster = ""
        self._unsettled: dict[str, dict[str, tuple[Message, float]]] = {}
        """Subject, which the agents of a node share -> source -> its newest usage message, and when
        it came."""

    # -- what the API server has

    def node(self, raw: bytes) -> CardNode:
        """Raises msgspec.DecodeError."""
        return read_node(self.registry, raw)

    def pod(self, raw: bytes) -> CardPod:
        """Raises msgspec.DecodeError. Nodes have been read before."""
        return read_pod(self.registry, raw, self.occupancy.cards_on)

    def put_nodes(self, nodes: Sequence[CardNode]) -> None:
        """All nodes that there are, at once."""
        at_once(self.list_nodes(nodes))

    def list_nodes(self, nodes: Sequence[CardNode]) -> Slices[None]:
        """All nodes that there are."""
        for name in self._nodes.keys() - {node.name for node in nodes}:
            self.remove_node(name)
        yield from for_each(nodes, self.put_node)

    def put_node(self, node: CardNode) -> None:
        """A node as it is now; one that has not changed costs nothing."""
        if self._nodes.get(node.name) == node:
            return
        self._nodes[node.name] = node
        self.occupancy.put_node(node)
        for reports in (self._reports, self._states):
            if reports is not None:
                reports.know(node.name, node.cards, node.voices)

    def remove_node(self, name: str) -> None:
        """The node is gone."""
        self._nodes.pop(name, None)
        self.occupancy.remove_node(name)
        for reports in (self._reports, self._states):
            if reports is not None:
                reports.forget(name)

    def put_pods(self, pods: Sequence[CardPod]) -> None:
        """All pods that there are, at once."""
        at_once(self.list_pods(pods))

    def list_pods(self, pods: Sequence[CardPod]) -> Slices[None]:
        """All pods that there are."""
        gone = set(self.occupancy.pods()).difference(pod.uid for pod in pods)
        yield from for_each(gone, self.occupancy.remove_pod)
        yield from for_each(pods, self.occupancy.put_pod)

    def left_out(self, what: str) -> None:
        """An object that cannot be read."""
        if len(self.notices) < MOST_NOTICES:
            self.notices.append(what)

    # -- what agents report

    def serves(self, cluster: str) -> None:
        """From now on reports of this cluster count."""
        self._cluster = cluster
        self._reports = AgentReports(cluster, self.registry.vendors, self._doubt)
        self._states = AgentReports(cluster, self.registry.vendors, self._doubt)
        for node in self._nodes.values():
            self._reports.know(node.name, node.cards, node.voices)
            self._states.know(node.name, node.cards, node.voices)

    @property
    def reporting(self) -> set[str]:
        """Nodes with an agent whose reports can be checked: it shows a key."""
        return {node.name for node in self._nodes.values() if any(node.voices.values())}

    def take_usage(self, message: Message, now: float) -> None:
        """A usage message, whatever it is worth; `now` in seconds of a steady clock. It is looked
        into by `settle`: agents of 5,000 nodes say more in a second than can be checked in one."""
        self.messages += 1
        of_node = self._unsettled.setdefault(message.subject, {})  # an older one keeps its turn
        source = message.envelope.source
        if source in of_node or len(of_node) < MOST_SOURCES:
            of_node[source] = message, now
        self.usage_came.set()

    def settle(self, most: int | None = None, first: Iterable[str] = ()) -> None:
        """Count usage messages that have come: those of nodes that are to be `first`, then those of
        up to `most` others, the longest waiting first; without `most` all of them."""
        if self._reports is None:
            return
        for node in first:
            self._count(subjects.usage(self._cluster, node), self._reports)
        for subject in list(islice(self._unsettled, most)):
            self._count(subject, self._reports)

    def _count(self, subject: str, reports: AgentReports) -> None:
        for message, came in self._unsettled.pop(subject, {}).values():
            with suppress(msgspec.DecodeError):
                usage = reports.usage(message, self.occupancy.grant_of)
                if usage is not None:
                    self.occupancy.put_usage(usage, came)

    def take_metrics(self, usage: NodeUsage, now: float) -> None:
        """Usage that was read from an agent's own endpoint, by way of the API server."""
        of = self._nodes.get(usage.node)
        doubts = Doubts()
        cards = {} if of is None else {c.id: c for c in of.cards if c.vendor == usage.vendor}
        counted = counting(usage, cards, self.occupancy.grant_of, doubts)
        self.doubted += len(doubts.found)
        self.occupancy.put_usage(counted, now)

    def take_state(self, message: Message) -> None:
        """A device state, whatever it is worth."""
        self.messages += 1
        if self._states is not None:
            with suppress(msgspec.DecodeError):
                state = self._states.state(message)
                if state is not None:
                    self.occupancy.put_state(state)

    def _doubt(self, node: str, doubt: Doubt, what: str) -> None:
        del node, doubt, what
        self.doubted += 1


async def receive_states(bus: Bus, feed: ClusterFeed) -> NoReturn:
    """Give the feed the cards' states that agents report, for ever."""
    async with bus.watch(subjects.DEVICES_BUCKET) as states:
        async for state in states:
            if isinstance(state, Message):
                feed.take_state(state)
    raise AssertionError("a watch never ends")


async def receive_usage(bus: Bus, cluster: str, feed: ClusterFeed) -> NoReturn:
    """Give the feed what agents of the cluster measure, for ever."""
    now = asyncio.get_running_loop().time
    async with bus.subscribe(subjects.usage(cluster, "*")) as messages:
        async for message in messages:
            feed.take_usage(message, now())
    raise AssertionError("a subscription never ends")


class NodeFeed:
    """A reflector's handler."""

    def __init__(self, feed: ClusterFeed) -> None:
        self._feed = feed

    def on_list(self, items: list[CardNode], started: float, now: float) -> Slices[None]:
        """See `Handler.on_list`."""
        del started, now
        return self._feed.list_nodes(items)

    def on_event(self, change: WatchEventType, item: CardNode, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        if change is WatchEventType.DELETED:
            self._feed.remove_node(item.name)
        else:
            self._feed.put_node(item)


class PodFeed:
    """A reflector's handler."""

    def __init__(self, feed: ClusterFeed) -> None:
        self._feed = feed

    def on_list(self, items: list[CardPod], started: float, now: float) -> Slices[None]:
        """See `Handler.on_list`."""
        del started, now
        return self._feed.list_pods(items)

    def on_event(self, change: WatchEventType, item: CardPod, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        if change is WatchEventType.DELETED:
            self._feed.occupancy.remove_pod(item.uid)
        else:
            self._feed.occupancy.put_pod(item)
