"""Nodes' cards: their models, and what a part of one is worth.

Cards that only Koordinator's Device objects describe are not known here: shares of them count with
their memory and cores, and as no part of a model.
"""

from __future__ import annotations

from sys import intern

from msgspec import Struct

from tessera_core.inventory.merge import cards_of
from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import DialectRegistry
from tessera_core.reports.agents import AgentReports, Voices, voices_of
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.cards import Card
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Node


class NodeCardsSummary(Struct, frozen=True):
    """A node's cards, and the agents that publish them."""

    name: str
    cards: tuple[Card, ...]
    voices: Voices = {}
    """The agents that publish them."""


_node = decoder(Node)


class LedgerNodes:
    """A handler that keeps the ledger's nodes."""

    def __init__(
        self, registry: DialectRegistry, ledger: Ledger, reports: AgentReports | None = None
    ) -> None:
        """`reports`, if any, are given the cards and agents of each node."""
        self._reports = reports
        self._registry = registry
        self._ledger = ledger
        self._known: dict[str, tuple[Card, ...]] = {}

    def watched(self) -> ListWatch[NodeCardsSummary]:
        """What to list and watch."""
        return ListWatch(paths.NODES, self.read)

    def read(self, raw: bytes) -> NodeCardsSummary:
        """Raises msgspec.DecodeError."""
        return self.summary(_node(raw))

    def summary(self, node: Node) -> NodeCardsSummary:
        """The summary of a node."""
        cards, _ = cards_of(self._registry, node, {})
        return NodeCardsSummary(intern(node.name), cards, voices_of(node))

    def on_list(self, items: list[NodeCardsSummary], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        del started, now
        for name in set(self._known).difference(item.name for item in items):
            self._drop(name)
        for item in items:
            self._know(item)

    def on_event(self, change: WatchEventType, item: NodeCardsSummary, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        if change is WatchEventType.DELETED:
            self._drop(item.name)
        else:
            self._know(item)

    def _know(self, item: NodeCardsSummary) -> None:
        if self._reports is not None:
            self._reports.know(item.name, item.cards, item.voices)
        if self._known.get(item.name) != item.cards:
            self._known[item.name] = item.cards
            self._ledger.put_node(item.name, item.cards)

    def _drop(self, name: str) -> None:
        if self._reports is not None:
            self._reports.forget(name)
        if self._known.pop(name, None) is not None:
            self._ledger.remove_node(name)
