"""Nodes and disruption budgets, as plans see them."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from tessera_core.kube.label_selectors import parse_selector
from tessera_core.ledger.ledger import Ledger
from tessera_core.rebalance.disruption_budgets import Disruption
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.informers import nodes
from tessera_runtime.kube import paths
from tessera_runtime.kube.lists import identity
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Node

BUDGETS: Final = "/apis/policy/v1/poddisruptionbudgets"


class PlanNodeSummary(Struct, frozen=True):
    """A node, and its cards."""

    node: Node
    cards: nodes.NodeCardsSummary


_node = decoder(Node)


class PlanNodes:
    """All nodes; a handler that keeps the ledger's, too."""

    def __init__(self, registry: DialectRegistry, ledger: Ledger) -> None:
        self.known: dict[str, Node] = {}
        self._cards = nodes.LedgerNodes(registry, ledger)

    def watched(self) -> ListWatch[PlanNodeSummary]:
        """What to list and watch."""
        return ListWatch(paths.NODES, self.read)

    def read(self, raw: bytes) -> PlanNodeSummary:
        """Raises msgspec.DecodeError."""
        node = _node(raw)
        return PlanNodeSummary(node, self._cards.summary(node))

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


class _BudgetSpec(Struct, frozen=True):
    selector: dict[str, Any] | None = None


class _BudgetStatus(Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0


class _Budget(Struct, frozen=True):
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()


_budget = decoder(_Budget)


class DisruptionBudgets:
    """All disruption budgets; a handler."""

    def __init__(self) -> None:
        self._known: dict[str, Disruption] = {}

    @property
    def all(self) -> tuple[Disruption, ...]:
        """All budgets."""
        return tuple(self._known.values())

    def watched(self) -> ListWatch[Disruption]:
        """What to list and watch."""
        return ListWatch(BUDGETS, self.read)

    def read(self, raw: bytes) -> Disruption:
        """Raises msgspec.DecodeError and ValueError. Without a selector it guards no pod."""
        of, budget = identity(raw), _budget(raw)
        if budget.spec.selector is None:
            return Disruption(namespace="", name=of.name, selector=(), allowed=0)
        return Disruption(
            namespace=of.namespace, name=of.name, selector=parse_selector(budget.spec.selector),
            allowed=budget.status.disruptions_allowed,
        )  # fmt: skip

    def on_list(self, items: list[Disruption], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        del started, now
        self._known = {f"{item.namespace}/{item.name}": item for item in items}

    def on_event(self, change: WatchEventType, item: Disruption, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        key = f"{item.namespace}/{item.name}"
        if change is WatchEventType.DELETED:
            self._known.pop(key, None)
        else:
            self._known[key] = item
