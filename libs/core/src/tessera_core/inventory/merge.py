"""One set of cards for a node from everything that publishes them.

A node may carry our own annotation, HAMi's register, Koordinator's Device and plain capacities at
the same time. The most precise source names the cards; the others may add what it does not know
(topology, minor numbers) and take health away, and disagreements are reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sys import intern
from typing import Final

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from tessera_core.dialect_kit.capacity_cards import MOST_CARDS
from tessera_core.inventory.extended_resources import allocated_names, without_advertised
from tessera_core.registry.plugin_requests import NOTHING_ALLOCATED, AllocatedResources
from tessera_core.registry.registry import DialectRegistry
from tessera_core.shared_values import one_number
from tessera_schema.annotation_keys import CARDS_LABEL, CARDS_PREFIX, GROUP
from tessera_schema.cards import (
    MOST_CORES_PERCENT,
    MOST_MEMORY_BYTES,
    MOST_SLOTS,
    Card,
    Inventory,
    Precision,
    Siting,
)
from tessera_schema.kube import Custom, Node
from tessera_schema.node_cards import PUBLISHED_VERSION, decode_node_cards

_NO_LINKS: Final[dict[str, int]] = {}
POOL_LABEL: Final = f"{GROUP}/pool"
"""Label of a node that says its pool; dialects may know others, which count where it is missing."""
OWN_SOURCE: Final = "tessera"
"""What `Inventory.source` of Tessera's agent is."""
MOST_NAME: Final = 256
"""Letters of a card's id, model and mode."""
MOST_WARNINGS: Final = 16
"""What is wrong with one node's cards, sentence by sentence."""
MOST_WARNING: Final = 512
"""Letters of one such sentence: they quote what was published."""


class NodeCards(Struct, frozen=True, kw_only=True):
    """What is published of a node's cards."""

    cards: tuple[Card, ...] = ()
    warnings: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()
    """Vendors whose cards Tessera's agent gives to containers."""
    allocated: AllocatedResources = NOTHING_ALLOCATED
    """What of the node kubelet asks device plugins for."""
    missing: frozenset[str] = frozenset()
    """Vendors of which cards are expected on the node, by its labels, resources or annotations, and
    none are published."""
    sources: frozenset[tuple[str, str]] = frozenset()
    """Vendor and source of each that publishes cards; `tessera` is our agent, the others are names
    of dialects."""
    labelled: frozenset[str] = frozenset()
    """Vendors whose cards only labels name."""


def cards_of(
    registry: DialectRegistry, node: Node, customs: Mapping[str, Sequence[Custom]]
) -> tuple[tuple[Card, ...], tuple[str, ...]]:
    """The node's cards, vendor by vendor, and what is wrong with what was published."""
    on = node_cards_with_allocations(registry, node, customs)
    return on.cards, on.warnings


def node_cards_with_allocations(
    registry: DialectRegistry,
    node: Node,
    customs: Mapping[str, Sequence[Custom]],
    *,
    labelled: bool = False,
) -> NodeCards:
    """The node's cards, vendor by vendor, what is wrong with what was published, and how containers
    get them.

    `customs` are custom resources by name: those named like the node are asked. With `labelled`,
    which is for plans, cards that only labels name count where nothing else names any.
    """
    found, seen = _own_inventories(registry, node), node
    advertised = (i.advertised for i in found)
    node = without_advertised(node, _registered(registry, found).union(*advertised))
    for dialect in registry.readers.values():
        found += dialect.inventory(node, customs.get(node.name, ()))
    found = _usable(found, labelled=labelled)
    warnings = [w for inventory in found for w in inventory.warnings]
    found = [_credible(node.name, inventory, warnings) for inventory in found]
    cards: list[Card] = []
    for vendor in dict.fromkeys(i.vendor for i in found):
        sources = [i for i in found if i.vendor == vendor]
        merged, problems = _merge(
            node.name, [i for i in sources if i.cards or i.precision is Precision.TESSERA]
        )
        cordoned = {card for source in sources for card in source.cordoned}
        cards += [replace(c, cordoned=True) if c.id in cordoned else c for c in merged]
        unknown = sorted(cordoned - {c.id for c in merged})
        if unknown:
            problems.append(
                f"node {node.name}: cordoned {vendor} cards {', '.join(unknown[:4])}: no such card "
                "on the node; correct the list"
            )
        warnings += problems
    given, allocated = _giving(registry, found)
    unique = _with_unique_ids(node.name, _in_pool(registry, node, cards), warnings)
    expected = _expected(registry, seen).union(i.vendor for i in found)
    return NodeCards(
        cards=_as_many_as_fit(node.name, "all its vendors together", unique, warnings),
        warnings=_short(warnings), given=given, allocated=allocated,
        missing=expected.difference(card.vendor for card in unique),
        sources=frozenset((i.vendor, i.source) for i in found if i.cards),
        labelled=frozenset(i.vendor for i in found if i.precision is Precision.LABELLED),
    )  # fmt: skip


def _usable(found: Sequence[Inventory], *, labelled: bool) -> list[Inventory]:
    """Without cards that only labels name, unless they are wanted and nothing else names any."""
    named = {
        i.vendor for i in found
        if i.precision is Precision.TESSERA or (i.cards and i.precision is not Precision.LABELLED)
    }  # fmt: skip
    return [
        i for i in found
        if i.precision is not Precision.LABELLED or (labelled and i.vendor not in named)
    ]  # fmt: skip


def _expected(registry: DialectRegistry, node: Node) -> frozenset[str]:
    """Vendors whose cards somebody says the node has: by a label of the nodes on which our agent
    runs, or by a resource that a dialect reads."""
    labels = node.metadata.labels
    named = {labels.get(CARDS_LABEL, "")} & registry.vendors.keys()
    labelled = (
        vendor.name
        for vendor in registry.vendors.values()
        if any(labels.get(label) == value for label, value in vendor.labels.items())
    )
    counted = {**node.status.capacity, **node.status.allocatable}.keys()
    there = (d.vendor for d in registry.readers.values() if not d.resources.isdisjoint(counted))
    return frozenset(named).union(labelled, there)


def _registered(registry: DialectRegistry, own: Sequence[Inventory]) -> frozenset[str]:
    """The names that our agents have kubelet count on the node, as many as it may run."""
    asked = (
        i.vendor for i in own if i.giving and not registry.vendors[i.vendor].own_plugin_allocates
    )
    return _names(registry, frozenset(asked))


def _giving(
    registry: DialectRegistry, found: Sequence[Inventory]
) -> tuple[frozenset[str], AllocatedResources]:
    """Vendors whose cards our agent gives, and what kubelet asks whose device plugins for."""
    given, by_agent, by_own_plugin = set(), set(), set()
    there = [i for i in found if i.cards or i.precision is Precision.TESSERA]
    for vendor in {i.vendor for i in there}:
        best = min((i for i in there if i.vendor == vendor), key=_rank)
        by_us = best.precision is Precision.TESSERA
        if _allocates(registry, vendor, best, by_us=by_us):
            by_own_plugin.add(vendor)
        elif by_us:
            given.add(vendor)
            if best.giving:
                by_agent.add(vendor)
    if not (by_agent or by_own_plugin):
        return frozenset(given), NOTHING_ALLOCATED
    return frozenset(given), AllocatedResources(
        by_agent=_names(registry, frozenset(by_agent)),
        by_own_plugin=_names(registry, frozenset(by_own_plugin)),
    )


def _allocates(registry: DialectRegistry, vendor: str, best: Inventory, *, by_us: bool) -> bool:
    """Whether a plugin that is not Tessera's does: the vendor's, or where Tessera's agent is not,
    that of the system that the cards are known from."""
    if vendor in registry.vendors and registry.vendors[vendor].own_plugin_allocates:
        return True
    return not by_us and registry.readers[best.source].own_plugin_allocates


def _names(registry: DialectRegistry, vendors: frozenset[str]) -> frozenset[str]:
    return frozenset(name for v in vendors for name in allocated_names(registry, v))


def _in_pool(registry: DialectRegistry, node: Node, cards: list[Card]) -> list[Card]:
    labels = node.metadata.labels
    declared = (label for dialect in registry.readers.values() for label in dialect.pool_labels)
    pool = next((labels[label] for label in (POOL_LABEL, *declared) if label in labels), "")
    if not pool:
        return cards
    return [replace(card, siting=replace(card.siting or Siting(), pool=pool)) for card in cards]


def _with_unique_ids(node: str, cards: Sequence[Card], warnings: list[str]) -> tuple[Card, ...]:
    """The ledger knows a node's cards by id alone, whatever vendor they are of."""
    unique: dict[str, Card] = {}
    for card in cards:
        if card.id in unique:
            warnings.append(
                f"node {node}: {card.vendor} and {unique[card.id].vendor} both publish a card "
                f"{card.id!r}: {card.vendor}'s is not used; give it another id"
            )
        unique.setdefault(card.id, card)
    return tuple(unique.values())


def _own_inventories(registry: DialectRegistry, node: Node) -> list[Inventory]:
    found = []
    for key, text in node.metadata.annotations.items():
        vendor = key.removeprefix(CARDS_PREFIX)
        if vendor == key or vendor not in registry.vendors:
            continue
        cards: tuple[Card, ...] = ()
        warnings: tuple[str, ...] = ()
        giving, advertised = "", frozenset[str]()
        try:
            published = decode_node_cards(text)
            giving, advertised = published.giving or "", frozenset(published.advertises or ())
            cards = published.cards if published.version == PUBLISHED_VERSION else ()
            if published.version != PUBLISHED_VERSION:
                what = f"version {published.version}, this one reads {PUBLISHED_VERSION}: upgrade"
                warnings = (f"node {node.name}: annotation {key}: {what}",)
        except msgspec.DecodeError as e:
            warnings = (f"node {node.name}: annotation {key}: {e}; the agent will write it again",)
        found.append(
            Inventory(
                vendor=vendor, source=OWN_SOURCE, precision=Precision.TESSERA,
                cards=tuple(_lean(c, vendor) for c in cards),
                giving=giving, advertised=advertised, warnings=warnings,
            )
        )  # fmt: skip
    return found


def _lean(card: Card, vendor: str) -> Card:
    """A published card as it is held: what cards have in common is there once."""
    return replace(
        card, id=intern(card.id), vendor=vendor, model=intern(card.model),
        switch=intern(card.switch), mode=intern(card.mode),
        memory_bytes=one_number(card.memory_bytes), links=card.links or _NO_LINKS, siting=UNSET,
    )  # fmt: skip


def _credible(node: str, inventory: Inventory, warnings: list[str]) -> Inventory:
    """Without cards that no node has room for, or that no hardware can be: they would overflow the
    ledger."""
    what = f"{inventory.source}'s {inventory.vendor}"
    cards = _as_many_as_fit(node, what, inventory.cards, warnings)
    odd = [c for c in cards if not _can_be(c)]
    warnings.extend(
        f"node {node}: {inventory.source}: card {c.id[:MOST_NAME]}: {c.memory_bytes} bytes, "
        f"{c.cores_percent:g} % and {c.slots} slots, or names of more than {MOST_NAME} letters, "
        "are beyond belief: not used"
        for c in odd
    )
    return replace(inventory, cards=tuple(c for c in cards if c not in odd))


def _as_many_as_fit(
    node: str, what: str, cards: tuple[Card, ...], warnings: list[str]
) -> tuple[Card, ...]:
    """The first `MOST_CARDS` of them: every node costs as much memory as the widest."""
    if len(cards) > MOST_CARDS:
        warnings.append(
            f"node {node}: {what} cards are {len(cards)}: the first {MOST_CARDS} are used, the "
            "rest is left out; see what publishes them"
        )
    return cards[:MOST_CARDS]


def _short(warnings: Sequence[str]) -> tuple[str, ...]:
    """What is remembered of each node, and logged."""
    short = [warning[:MOST_WARNING] for warning in warnings[:MOST_WARNINGS]]
    if len(warnings) > MOST_WARNINGS:
        short.append(f"and {len(warnings) - MOST_WARNINGS} more warnings")
    return tuple(short)


def _can_be(card: Card) -> bool:
    return (
        0 <= card.memory_bytes <= MOST_MEMORY_BYTES
        and 0 <= card.cores_percent <= MOST_CORES_PERCENT
        and 0 <= card.slots <= MOST_SLOTS
        and abs(card.numa) <= MOST_SLOTS
        and max(len(card.id), len(card.model), len(card.mode)) <= MOST_NAME
    )


def _rank(inventory: Inventory) -> tuple[int, str]:
    return inventory.precision, inventory.source


def _merge(node: str, sources: Sequence[Inventory]) -> tuple[list[Card], list[str]]:
    ranked = sorted(sources, key=_rank)
    if not ranked:
        return [], []
    base, warnings = ranked[0], []
    cards = {c.id: c for c in sorted(base.cards, key=lambda c: c.index)}
    if len(cards) < len(base.cards):
        warnings.append(f"node {node}: {base.source} names a card twice; it is counted once")
    for other in ranked[1:]:
        if len(other.cards) != len(base.cards):
            warnings.append(
                f"node {node}: {base.source} has {len(base.cards)} {base.vendor} cards, "
                f"{other.source} has {len(other.cards)}; {base.source} counts"
            )
        by_index = {c.index: c.id for c in cards.values()}
        for card in other.cards:
            known = card.id if card.id in cards else by_index.get(card.index)
            if known is not None:
                cards[known] = _complete(cards[known], card)
    return list(cards.values()), warnings


def _complete(card: Card, other: Card) -> Card:
    same = card.id == other.id
    return replace(
        card,
        memory_bytes=card.memory_bytes or other.memory_bytes,
        hidden=card.hidden or other.hidden,
        healthy=card.healthy and other.healthy,
        cordoned=card.cordoned or other.cordoned,
        model=card.model or other.model,
        minor=other.minor if card.minor < 0 and same else card.minor,
        switch=card.switch or (other.switch if same else ""),
        links=card.links or (other.links if same else {}),
        siting=card.siting or (other.siting if same else UNSET),
    )
