"""What `tessera migrate` finds of each node that another system serves: what that system says of
its cards, what Tessera reads and counts, what is in the way, and the commands there and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_core.dialect_kit.monitoring import CompetingSystem
from tessera_core.dialects.volcano import scheduler_config
from tessera_core.explain.card_holders import ListedCard, ListedNode
from tessera_core.preflight.findings import FindingState, listed, on_node
from tessera_core.preflight.installation import other_webhooks
from tessera_core.preflight.node_runtime import system_of
from tessera_core.preflight.objects import NodeFacts, WorkloadFacts
from tessera_core.preflight.scheduler import APPLY
from tessera_core.preflight.snapshot import InstallationSnapshot
from tessera_schema.annotation_keys import CARDS_LABEL, CARDS_PREFIX
from tessera_schema.cards import MIB, Inventory

COUNTS_OTHERS: Final = "TESSERA_BOOKS_MIGRATION"
"""Variable of the scheduler that the component `migration` sets."""
_WITH_MIGRATION: Final = APPLY.replace("overlay>", "overlay, with the component migration>")


class MigrationState(StrEnum):
    """How far a node is."""

    MOVED = "moved"
    """Tessera's agent gives its cards, and nothing else does."""
    READY = "ready"
    BLOCKED = "blocked"


class DescribedCards(Struct, frozen=True, kw_only=True):
    """What one system says of a node's cards."""

    system: str
    """Dialect in whose words it is said."""
    cards: int
    memory_mib: int


class NodeMigration(Struct, frozen=True, kw_only=True):
    """One node with cards."""

    name: str
    state: MigrationState
    plugins: tuple[str, ...]
    """DaemonSets of other systems that hand out its cards, `namespace/name`."""
    says: tuple[DescribedCards, ...]
    cards: int
    """That Tessera reads."""
    memory_mib: int
    held_mib: int
    """What it counts of them as held."""
    pods: tuple[str, ...]
    """Pods on it that hold cards and that another scheduler placed, `namespace/name`."""
    differences: tuple[str, ...]
    blockers: tuple[str, ...]
    """What is in the way, each with its remedy."""
    commands: tuple[str, ...]
    """That move it; none where it is moved, or something is in the way."""
    back: tuple[str, ...]
    """That give it back to the other system."""


class ClusterMigration(Struct, frozen=True, kw_only=True):
    """All nodes with cards, and what concerns the whole cluster."""

    nodes: tuple[NodeMigration, ...]
    blockers: tuple[str, ...]
    before: tuple[str, ...]
    """Commands before the first node."""
    after: tuple[str, ...]
    """Commands after the last."""
    settings: tuple[str, ...] = ()
    """What the configuration of another scheduler switches on, and what does the same here."""

    @property
    def blocked(self) -> bool:
        """Whether anything is in the way anywhere."""
        return bool(self.blockers) or any(n.state is MigrationState.BLOCKED for n in self.nodes)


class ReadCards(Struct, frozen=True, kw_only=True):
    """What was read of one node's cards."""

    listed: ListedNode
    inventories: tuple[Inventory, ...]
    """What each system says."""
    placed_by_others: frozenset[str]
    """Pods on it that hold cards without a grant of Tessera's, `namespace/name`."""
    unclear: tuple[str, ...] = ()
    """What of them nobody describes, a sentence with its remedy each."""


def migration(
    cluster: InstallationSnapshot, read: Mapping[str, ReadCards], names: Sequence[str] = ()
) -> ClusterMigration:
    """Of all nodes that have cards, or of those that are named."""
    everything = tuple(
        found
        for node in cluster.nodes
        if node.name in read and (found := _node(cluster, node, read[node.name])) is not None
    )
    nodes = tuple(node for node in everything if not names or node.name in names)
    webhooks = [o for o in other_webhooks(cluster) if o.state is not FindingState.OK]
    done = bool(everything) and all(node.state is MigrationState.MOVED for node in everything)
    before = () if cluster.scheduler is not None else (_WITH_MIGRATION,)
    others = {pod for node in everything for pod in node.pods}
    blockers = []
    if everything and not cluster.daemonsets and not done:
        blockers.append(
            "no DaemonSet was read, so that nothing shows which plugins give the cards: kubectl "
            "get daemonsets -A -o json"
        )
    if others and cluster.scheduler is not None and not counts_others(cluster.scheduler):
        blockers.append(
            f"the scheduler does not count pods that another one placed ({listed(others)}): "
            f"{_WITH_MIGRATION}"
        )
    if done:
        blockers += [f"{one.found}: {one.remedy}" for one in webhooks]
    after = [one.remedy.partition("  #")[0] for one in webhooks]
    return ClusterMigration(
        nodes=nodes, blockers=tuple(blockers), before=before, after=tuple(after),
        settings=tuple(_settings(cluster)),
    )  # fmt: skip


def _settings(cluster: InstallationSnapshot) -> Iterator[str]:
    """Of Volcano's scheduler, where its ConfigMap was read."""
    for found in cluster.configmaps:
        text = found.data.get(scheduler_config.FILE)
        if text is None:
            continue
        try:
            conf = msgspec.yaml.decode(text, type=dict[str, Any] | None) or {}
            yield from scheduler_config.read(conf).settings
        except (msgspec.DecodeError, ValueError) as e:
            meta = found.metadata
            yield f"ConfigMap {meta.namespace}/{meta.name}: {scheduler_config.FILE}: {e}"


def counts_others(scheduler: WorkloadFacts) -> bool:
    """Whether the ledger counts what other systems gave."""
    return any(
        variable.name == COUNTS_OTHERS and variable.value == "true"
        for container in scheduler.all_containers
        for variable in container.env
    )


def _node(cluster: InstallationSnapshot, node: NodeFacts, read: ReadCards) -> NodeMigration | None:
    plugins = [(d, s) for d in cluster.daemonsets if (s := system_of(cluster, d)) is not None]
    here = [(daemonset, system) for daemonset, system in plugins if daemonset.selector(node)]
    cards = read.listed.cards
    described = any(inventory.cards for inventory in read.inventories)
    if not (cards or described or read.listed.lost or read.unclear):
        return None
    blockers = tuple(_blockers(read))
    vendor = next((c.card.vendor for c in cards), "") or _vendor(cluster, here)
    given = bool(vendor) and f"{CARDS_PREFIX}{vendor}" in node.metadata.annotations
    usable = any(not card.card.cordoned for card in cards)
    moved = not here and given and usable
    state = MigrationState.MOVED if moved else MigrationState.READY
    if blockers and not moved:
        state = MigrationState.BLOCKED
    return NodeMigration(
        name=node.name, state=state,
        plugins=tuple(daemonset.name for daemonset, _ in here),
        says=tuple(_said(read.inventories)),
        cards=len(cards), memory_mib=sum(card.card.memory_mib for card in cards),
        held_mib=sum(card.held.memory_bytes for card in cards) // MIB,
        pods=tuple(sorted(read.placed_by_others)),
        differences=tuple(_differences(read)),
        blockers=() if moved else blockers,
        commands=tuple(_commands(node, vendor, here)) if state is MigrationState.READY else (),
        back=tuple(_back(node, plugins)),
    )  # fmt: skip


_Plugins = Sequence[tuple[WorkloadFacts, CompetingSystem]]


def _vendor(cluster: InstallationSnapshot, plugins: _Plugins) -> str:
    systems = [system for _, system in plugins]
    return next(
        (v for v, spec in cluster.vendors.items()
         if any(system in spec.competing_systems for system in systems)),
        "",
    )  # fmt: skip


def _said(inventories: Iterable[Inventory]) -> Iterator[DescribedCards]:
    for one in inventories:
        if one.cards:
            memory = sum(card.memory_mib for card in one.cards)
            yield DescribedCards(system=one.source, cards=len(one.cards), memory_mib=memory)


def _differences(read: ReadCards) -> Iterator[str]:
    cards = read.listed.cards
    for said in _said(read.inventories):
        if said.cards != len(cards):
            yield f"{said.system} has {said.cards} cards on it, Tessera reads {len(cards)}"
        elif said.memory_mib != (memory := sum(card.card.memory_mib for card in cards)):
            yield f"{said.system} has {said.memory_mib} MiB of memory, Tessera reads {memory}"
    for card in filter(_is_over, cards):
        held = card.held.memory_bytes // MIB
        yield (
            f"card {card.card.index}: pods hold {held} of {card.card.memory_mib} MiB: it gets no "
            "more pods until some have ended"
        )


def _is_over(card: ListedCard) -> bool:
    return card.held.memory_bytes > card.card.memory_bytes


def _blockers(read: ReadCards) -> Iterator[str]:
    yield from read.unclear
    if read.listed.closed:
        yield (
            "what a pod there holds cannot be read: find it with `tessera place --cards`, and end "
            "it before the node is moved"
        )
    for card in read.listed.lost:
        pods = [f"{h.namespace}/{h.name}" for h in card.holders]
        yield (
            f"{listed(pods)}: the node does not publish the card {card.card} that it holds: end "
            "it, or see why the card is missing"
        )
    guessed = {(h.namespace, h.name) for c in read.listed.cards for h in c.holders if not h.written}
    for namespace, name in sorted(guessed):
        yield (
            f"{namespace}/{name}: nothing shows which cards of the node it holds: "
            f"kubectl -n {namespace} delete pod {name}"
        )


def _commands(node: NodeFacts, vendor: str, plugins: _Plugins) -> Iterator[str]:
    name = node.name
    yield f"kubectl cordon {name}"
    for daemonset, system in plugins:
        yield _filled(system.leaves, daemonset, node)
    if CARDS_LABEL not in node.metadata.labels and not plugins:
        yield f"kubectl label nodes {name} {CARDS_LABEL}={vendor}"
    yield f"tessera check --node {name}  # until no check fails"
    yield f"kubectl uncordon {name}"


def _back(node: NodeFacts, plugins: _Plugins) -> Iterator[str]:
    name = node.name
    yield f"kubectl cordon {name}"
    yield (
        on_node(name, "grep -rs required_plugins /etc/containerd")
        + "  # where it is set, take it out and restart containerd"
    )
    for daemonset, system in plugins:
        yield _filled(system.returns, daemonset, node)
    if not plugins:
        yield f"kubectl label nodes {name} {CARDS_LABEL}-"
    yield f"kubectl uncordon {name}"


def _filled(command: str, daemonset: WorkloadFacts, node: NodeFacts) -> str:
    meta = daemonset.metadata
    return command.format(namespace=meta.namespace, name=meta.name, node=node.name)
