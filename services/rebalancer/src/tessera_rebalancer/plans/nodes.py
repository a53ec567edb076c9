"""Nodes, as plans see them."""

from __future__ import annotations

from sys import intern

from msgspec import Struct

from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import DialectRegistry
from tessera_core.reports.agents import AgentReports
from tessera_core.shared_values import SharedValues
from tessera_runtime.informers import nodes
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Node, ObjectMeta


class PlanNodeSummary(Struct, frozen=True):
    """A node, and its cards."""

    node: Node
    """What plans read of it: its annotations, in which its cards are, are left out."""
    cards: nodes.NodeCardsSummary


_node = decoder(Node)


class PlanNodes:
    """All nodes; a handler that keeps the ledger's, too."""

    def __init__(
        self,
        registry: DialectRegistry,
        ledger: Ledger,
        shared: SharedValues,
        reports: AgentReports | None = None,
    ) -> None:
        """`shared` has what nodes have in common; `reports`, if any, are given the cards and agents
        of each node."""
        self._shared = shared
        self.known: dict[str, Node] = {}
        self._cards = nodes.LedgerNodes(registry, ledger, reports)

    def watched(self) -> ListWatch[PlanNodeSummary]:
        """What to list and watch."""
        return ListWatch(paths.NODES, self.read)

    def read(self, raw: bytes) -> PlanNodeSummary:
        """Raises msgspec.DecodeError."""
        node = _node(raw)
        meta = node.metadata
        kept = Node(
            metadata=ObjectMeta(name=intern(meta.name), uid=meta.uid, labels=meta.labels),
            spec=self._shared.one(node.spec),
            status=self._shared.one(node.status),
        )
        return PlanNodeSummary(kept, self._cards.summary(node))

    def on_list(self, items: list[PlanNodeSummary], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        self.known = {item.node.name: item.node for item in items}
        self._cards.on_list([item.cards for item in items], started, now)

    def on_event(self, change: WatchEventType, item: PlanNodeSummary, now: float) -> None:
        """See `Handler.on_event`."""
        if change is WatchEventType.DELETED:
            self.known.pop(item.node.name, None)
        else:
            self.known[item.node.name] = item.node
        self._cards.on_event(change, item.cards, now)
