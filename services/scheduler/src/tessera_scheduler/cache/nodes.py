"""The cards of every node in the ledger: what is published durably, less what reports take away.

The node's annotations (and the custom resources that other systems describe cards with) are what
counts. The bus may take a card away at once, because it went bad or its driver no longer shows it;
only what is published durably brings capacity. What the bus took away comes back when the bus says
so, when the card was published unhealthy and then healthy again, or when the agent did not repeat
it for a while: by then it has written what is true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from sys import intern
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
from tessera_scheduler.cache.agent_leases import heartbeats_of
from tessera_schema.cards import Card
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Custom, Node
from tessera_schema.messages.device_reports import DeviceState

WARNINGS: Final = 5_000
"""Nodes whose warnings are remembered, so that each is logged once."""

_node = decoder(Node)
_custom = decoder(Custom)
_log = logs.named("tessera.scheduler.nodes")


class NodeSummary(Struct, frozen=True, kw_only=True, gc=False):
    """What is published of a node's cards."""

    name: str
    cards: tuple[Card, ...] = ()
    warnings: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()
    """Vendors whose cards Tessera's agent gives to containers."""
    missing: frozenset[str] = frozenset()
    """Vendors of which cards are expected, and none are published."""
    allocated: AllocatedResources = NOTHING_ALLOCATED
    host: Host | None = None
    """What it has for pods apart from cards; None = it does not say."""
    voices: Voices = {}
    """The agents that publish them."""
    heartbeats: Mapping[str, float] = {}
    """Vendor -> seconds for which a renewal of its agent's Lease counts, where one is announced."""


class NodeCache:
    """Keeps the ledger's nodes in step with node objects, custom resources and agents' reports."""

    def __init__(
        self, registry: DialectRegistry, ledger: Ledger, reports: AgentReports, *, report_s: float
    ) -> None:  # fmt: skip
        """`reports` learns what each node shows. What the bus takes away and does not repeat
        counts for `report_s` seconds."""
        self._reports = reports
        self._registry = registry
        self._ledger = ledger
        self._report_s = report_s
        self._published: dict[str, tuple[Card, ...]] = {}
        self._customs: dict[str, dict[str, Custom]] = {}
        """Node -> API path -> object."""
        self._lost: dict[str, dict[str, _Lost]] = {}
        """Node -> vendor -> what the bus took away."""
        self._warned: dict[str, tuple[str, ...]] = {}

    def read(self, raw: bytes | msgspec.Raw) -> NodeSummary:
        """The summary of a node object. Raises msgspec.DecodeError."""
        node = _node(bytes(raw))
        own = tuple(self._customs.get(node.name, {}).values())
        on = node_cards_with_allocations(self._registry, node, {node.name: own})
        return NodeSummary(
            name=intern(node.name), cards=on.cards, warnings=on.warnings, given=_shared(on.given),
            missing=on.missing,
            allocated=on.allocated, host=of_node(node), voices=voices_of(node),
            heartbeats=heartbeats_of(node),
        )  # fmt: skip

    def is_known(self, node: str) -> bool:
        """Whether the watch of nodes shows it."""
        return node in self._published

    def others(self, listed: Set[str]) -> Sequence[str]:
        """The known nodes that a list does not show."""
        return [name for name in self._published if name not in listed]

    def on_update(self, summary: NodeSummary) -> None:
        """Take a node that was added or modified."""
        if summary.warnings and self._warned.get(summary.name) != summary.warnings:
            self._warned[summary.name] = summary.warnings
            if len(self._warned) > WARNINGS:
                del self._warned[next(iter(self._warned))]
            _log.warning("cards published badly", node=summary.name, told=summary.warnings[:8])
        known = self._published.get(summary.name, ())
        for lost in self._lost.get(summary.name, {}).values():
            lost.published(known, summary.cards)
        # kubelet writes each node every few minutes, mostly with the same cards: those are kept
        cards = known if known == summary.cards else summary.cards
        self._published[summary.name] = cards
        self._reports.know(summary.name, cards, summary.voices)
        self._ledger.fleet.given[summary.name] = summary.given
        self._ledger.fleet.missing.pop(summary.name, None)
        if summary.missing:
            self._ledger.fleet.missing[summary.name] = summary.missing
        self._put(summary.name)

    def on_delete(self, name: str) -> None:
        """Drop a node that is gone."""
        self._published.pop(name, None)
        self._reports.forget(name)
        self._warned.pop(name, None)
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

    def read_custom(self, raw: bytes | msgspec.Raw) -> Custom:
        """A custom resource. Raises msgspec.DecodeError."""
        return _custom(bytes(raw))

    def on_custom_list(self, path: str, customs: Iterable[Custom]) -> list[str]:
        """Take a whole list of one kind; the nodes that are described otherwise than before."""
        listed = {custom.metadata.name: custom for custom in customs}
        other = [name for name in self._customs if name not in listed]
        changed = [name for name in other if self.on_custom_delete(path, name)]
        return changed + [n for n, c in listed.items() if self.on_custom_update(path, c)]

    def on_custom_update(self, path: str, custom: Custom) -> bool:
        """Take an object; True when it describes its node otherwise than before."""
        of_node = self._customs.setdefault(custom.metadata.name, {})
        former = of_node.get(path)
        of_node[path] = custom
        return former is None or _described(former) != _described(custom)

    def on_custom_delete(self, path: str, name: str) -> bool:
        """Drop an object; True when there was one."""
        of_node = self._customs.get(name, {})
        had = of_node.pop(path, None) is not None
        if not of_node:
            self._customs.pop(name, None)
        return had

    def on_device_state(self, state: DeviceState, now: float) -> bool:
        """Take the part that counts of an agent's report on its cards; True when some came back."""
        vendors = self._lost.setdefault(state.node, {})
        former = vendors[state.vendor].cards if state.vendor in vendors else frozenset()
        healthy = {card.id for card in state.cards if card.healthy}
        reported = {card.id for card in state.cards}
        published = {
            c.id for c in self._published.get(state.node, ()) if c.vendor == state.vendor
        }  # fmt: skip
        lost: frozenset[str] = frozenset()
        if not reported or not published.isdisjoint(reported):  # else its cards have other names
            lost = frozenset(published - healthy)
        if lost:
            vendors[state.vendor] = _Lost(lost, now)
        else:
            vendors.pop(state.vendor, None)
        if not vendors:
            del self._lost[state.node]
        if lost != former:
            self._put(state.node)
        return bool(former - lost)

    def expire(self, now: float) -> bool:
        """Drop what no agent repeated; True when cards came back."""
        back = False
        for name, vendors in list(self._lost.items()):
            old = [v for v, lost in vendors.items() if lost.at < now - self._report_s]
            for vendor in old:
                del vendors[vendor]
            if old:
                back = True
                self._put(name)
            if not vendors:
                del self._lost[name]
        return back


@lru_cache(256)
def _shared(vendors: frozenset[str]) -> frozenset[str]:
    """Equal sets are one object: most nodes have the same vendors."""
    return vendors


class _Lost:
    """Cards of one vendor on one node that the bus took away."""

    def __init__(self, cards: frozenset[str], at: float) -> None:
        self.cards = cards
        self.at = at

    def published(self, before: Sequence[Card], after: Sequence[Card]) -> None:
        """A card that was published unhealthy and is healthy now has come back."""
        unhealthy = {card.id for card in before if not card.healthy}
        self.cards -= {card.id for card in after if card.healthy and card.id in unhealthy}


def _described(custom: Custom) -> tuple[object, Mapping[str, str], Mapping[str, str]]:
    return custom.spec, custom.metadata.labels, custom.metadata.annotations
