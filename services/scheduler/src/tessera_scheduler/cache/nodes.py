"""The cards of every node in the ledger: what is published durably, less what news takes away.

The node's annotations (and the custom resources that other systems describe cards with) are what
counts. The bus may take a card away at once, because it went bad or its driver no longer shows it;
only what is published durably brings capacity. What the bus took away comes back when the bus says
so, when the card was published sick and then well again, or when nobody repeated it for a while: by
then the agent has written what is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.inventory.merge import node_cards_with_allocations
from tessera_core.kube.host_requests import Host, of_node
from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.plugin_requests import NOTHING_ALLOCATED, AllocatedResources
from tessera_core.registry.registry import DialectRegistry
from tessera_core.reports.agents import AgentReports, Voices, voices_of
from tessera_runtime import logs
from tessera_schema.cards import Card
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Custom, Node
from tessera_schema.messages.device_reports import DeviceState

WARNINGS: Final = 5_000
"""Nodes whose warnings are remembered, so that each is told once."""


_node = decoder(Node)
_custom = decoder(Custom)
_log = logs.named("tessera.scheduler.nodes")


class NodeSummary(Struct, frozen=True, kw_only=True):
    """What is published of a node's cards."""

    name: str
    cards: tuple[Card, ...] = ()
    warnings: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()
    """See `tessera_core.inventory.merge.NodeCards`."""
    missing: frozenset[str] = frozenset()
    """See there."""
    allocated: AllocatedResources = NOTHING_ALLOCATED
    host: Host | None = None
    """What it has for pods beside cards; None = it does not say."""
    voices: Voices = {}
    """The agents that publish them."""


class NodeCache:
    """Takes in what is seen of nodes and told of cards."""

    def __init__(
        self, registry: DialectRegistry, ledger: Ledger, reports: AgentReports, *, news_s: float
    ) -> None:  # fmt: skip
        """`reports` gets to know what each node shows. What the bus takes away and does not repeat
        counts for `news_s` seconds."""
        self._reports = reports
        self._registry = registry
        self._ledger = ledger
        self._news_s = news_s
        self._published: dict[str, tuple[Card, ...]] = {}
        self._customs: dict[str, dict[str, Custom]] = {}
        """Node -> API path -> object."""
        self._lost: dict[str, dict[str, _Lost]] = {}
        """Node -> vendor -> what the bus took away."""
        self._told: dict[str, tuple[str, ...]] = {}

    # -- what is published

    def read(self, raw: bytes | msgspec.Raw) -> NodeSummary:
        """Raises msgspec.DecodeError for what is no node."""
        node = _node(bytes(raw))
        own = tuple(self._customs.get(node.name, {}).values())
        on = node_cards_with_allocations(self._registry, node, {node.name: own})
        return NodeSummary(
            name=node.name, cards=on.cards, warnings=on.warnings, given=on.given,
            missing=on.missing,
            allocated=on.allocated, host=of_node(node), voices=voices_of(node),
        )  # fmt: skip

    def relisted(self, sights: Iterable[NodeSummary]) -> list[str]:
        """A whole list of nodes; those that are gone."""
        shown = set()
        for sight in sights:
            shown.add(sight.name)
            self.changed(sight)
        gone = [name for name in self._published if name not in shown]
        for name in gone:
            self.deleted(name)
        return gone

    def changed(self, sight: NodeSummary) -> None:
        """A node was added or modified."""
        if sight.warnings and self._told.get(sight.name) != sight.warnings:
            self._told[sight.name] = sight.warnings
            if len(self._told) > WARNINGS:
                del self._told[next(iter(self._told))]
            _log.warning("cards published badly", node=sight.name, told=sight.warnings[:8])
        for lost in self._lost.get(sight.name, {}).values():
            lost.published(self._published.get(sight.name, ()), sight.cards)
        self._published[sight.name] = sight.cards
        self._reports.know(sight.name, sight.cards, sight.voices)
        self._ledger.fleet.given[sight.name] = sight.given
        self._ledger.fleet.missing.pop(sight.name, None)
        if sight.missing:
            self._ledger.fleet.missing[sight.name] = sight.missing
        self._put(sight.name)

    def deleted(self, name: str) -> None:
        """A node is gone."""
        self._published.pop(name, None)
        self._reports.forget(name)
        self._told.pop(name, None)
        self._lost.pop(name, None)
        self._ledger.fleet.given.pop(name, None)
        self._ledger.fleet.missing.pop(name, None)
        self._ledger.remove_node(name)

    def _put(self, name: str) -> None:
        cards = self._published.get(name)
        if cards is None:
            return
        lost = self._lost.get(name, {})
        usable = tuple(
            replace(c, healthy=False)
            if c.vendor in lost and c.id in lost[c.vendor].cards and c.healthy
            else c
            for c in cards
        )
        row = self._ledger.fleet.rows.get(name)
        if row is None or self._ledger.fleet.facts[row] != usable:
            self._ledger.put_node(name, usable)

    # -- custom resources

    def read_custom(self, raw: bytes | msgspec.Raw) -> Custom:
        """Raises msgspec.DecodeError for what is no object."""
        return _custom(bytes(raw))

    def customs_relisted(self, path: str, customs: Iterable[Custom]) -> list[str]:
        """A whole list of one kind; the nodes that are described otherwise than before."""
        shown = {custom.metadata.name: custom for custom in customs}
        other = [name for name in self._customs if name not in shown]
        changed = [name for name in other if self.custom_deleted(path, name)]
        return changed + [n for n, custom in shown.items() if self.custom_changed(path, custom)]

    def custom_changed(self, path: str, custom: Custom) -> bool:
        """True when the object describes its node otherwise than before."""
        of_node = self._customs.setdefault(custom.metadata.name, {})
        former = of_node.get(path)
        of_node[path] = custom
        return former is None or _described(former) != _described(custom)

    def custom_deleted(self, path: str, name: str) -> bool:
        """True when there was such an object."""
        of_node = self._customs.get(name, {})
        had = of_node.pop(path, None) is not None
        if not of_node:
            self._customs.pop(name, None)
        return had

    # -- what the bus tells

    def on_device_state(self, state: DeviceState, now: float) -> bool:
        """The part that counts of an agent's report on its cards; True when some came back."""
        vendors = self._lost.setdefault(state.node, {})
        former = vendors[state.vendor].cards if state.vendor in vendors else frozenset()
        well = {card.id for card in state.cards if card.healthy}
        told = {card.id for card in state.cards}
        published = {
            c.id for c in self._published.get(state.node, ()) if c.vendor == state.vendor
        }  # fmt: skip
        sick: frozenset[str] = frozenset()
        if not told or not published.isdisjoint(told):  # else it has other names for its cards
            sick = frozenset(published - well)
        if sick:
            vendors[state.vendor] = _Lost(sick, now)
        else:
            vendors.pop(state.vendor, None)
        if not vendors:
            del self._lost[state.node]
        if sick != former:
            self._put(state.node)
        return bool(former - sick)

    def expire(self, now: float) -> bool:
        """Let go of what nobody repeated; True when cards came back."""
        back = False
        for name, vendors in list(self._lost.items()):
            old = [v for v, lost in vendors.items() if lost.at < now - self._news_s]
            for vendor in old:
                del vendors[vendor]
            if old:
                back = True
                self._put(name)
            if not vendors:
                del self._lost[name]
        return back


class _Lost:
    """Cards of one vendor on one node that the bus took away."""

    def __init__(self, cards: frozenset[str], at: float) -> None:
        self.cards = cards
        self.at = at

    def published(self, before: Sequence[Card], after: Sequence[Card]) -> None:
        """A card that was published sick and now well is well."""
        sick = {card.id for card in before if not card.healthy}
        self.cards -= {card.id for card in after if card.healthy and card.id in sick}


def _described(custom: Custom) -> tuple[object, Mapping[str, str], Mapping[str, str]]:
    return custom.spec, custom.metadata.labels, custom.metadata.annotations
