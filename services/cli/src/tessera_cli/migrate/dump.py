"""Compares objects: nodes and pods as `tessera place` reads them, and what else a migration
depends on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

from tessera_cli.errors import CommandError
from tessera_cli.input.manifests import Item, items
from tessera_cli.input.sources import sources
from tessera_cli.place.cluster_input import ClusterInput
from tessera_cli.place.decode import called, convert
from tessera_cli.place.lenient import without_nulls
from tessera_cli.text import condensed
from tessera_core.explain.card_holders import ListedNode
from tessera_core.planner import Planner
from tessera_core.preflight.migration import ClusterMigration, ReadCards, migration
from tessera_core.preflight.objects import (
    ConfigMapFacts,
    NodeFacts,
    WebhookRegistration,
    WorkloadFacts,
)
from tessera_core.preflight.snapshot import InstallationSnapshot
from tessera_core.recovery.cluster import Cluster
from tessera_core.registry.registry import DialectRegistry
from tessera_core.registry.vendor_monitoring import monitoring
from tessera_schema.grants import GRANT_KEY
from tessera_schema.kube import Custom, Node

_NOTES_SHOWN: Final = 20
_KINDS: Final[Mapping[tuple[str, str], tuple[str, type[Any]]]] = {
    ("apps", "DaemonSet"): ("daemonsets", WorkloadFacts),
    ("apps", "Deployment"): ("deployments", WorkloadFacts),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"):
        ("mutatingwebhooks", WebhookRegistration),
    ("", "ConfigMap"): ("configmaps", ConfigMapFacts),
}  # fmt: skip
"""What is read besides: its field of the snapshot, and its form."""


class NoSuchNode(CommandError):
    """A node is named that is not there."""


def read_dumps(names: Sequence[str], stdin: BinaryIO) -> Iterator[Item]:
    """The objects of the dumps that are named. Raises errors.CommandError."""
    for source in sources(names):
        yield from items(source, stdin)


def compare(
    found: Iterable[Item],
    nodes: Sequence[str],
    *,
    registry: DialectRegistry,
    notify: Callable[[str], None],
) -> ClusterMigration:
    """What the objects say of each node, or of those that are named. Raises
    errors.CommandError."""
    world = ClusterInput(registry, notify)
    more: dict[str, list[Any]] = defaultdict(list)
    facts: list[NodeFacts] = []
    for item in found:
        _add(world, more, facts, item)
    there = {node.name for node in facts}
    if missing := [name for name in nodes if name not in there]:
        raise NoSuchNode(f"node {missing[0]}: there is none of that name")
    cluster = world.cluster()
    planner = Planner(world.registry, cluster)
    listed, unpublished = planner.listing()
    for line in condensed((*world.gaps, *planner.warnings), _NOTES_SHOWN):
        notify(line)
    snapshot = InstallationSnapshot(
        registry=world.registry, vendors=monitoring(world.registry), nodes=tuple(facts),
        daemonsets=tuple(more["daemonsets"]), deployments=tuple(more["deployments"]),
        mutatingwebhooks=tuple(more["mutatingwebhooks"]), configmaps=tuple(more["configmaps"]),
    )  # fmt: skip
    return migration(snapshot, _read(world.registry, cluster, listed, unpublished), nodes)


def _add(
    world: ClusterInput, more: dict[str, list[Any]], facts: list[NodeFacts], item: Item
) -> None:
    known = _KINDS.get((item.group, item.kind))
    if known is None:
        if (item.group, item.kind) == ("", "Node"):
            facts.append(_converted(item, NodeFacts))
        world.add(item)
    else:
        field, form = known
        more[field].append(_converted(item, form))


def _converted(item: Item, form: type[Any]) -> Any:
    raw = without_nulls(item.generic())
    return convert(raw, form, called(item, raw))


def _read(
    registry: DialectRegistry,
    cluster: Cluster,
    listed: Iterable[ListedNode],
    unpublished: Sequence[str],
) -> dict[str, ReadCards]:
    """Node -> what was read of it."""
    customs: dict[str, list[Custom]] = defaultdict(list)
    for custom in cluster.customs:
        customs[custom.metadata.name].append(custom)
    nodes = {node.name: node for node in cluster.nodes}
    granted = {
        (p.metadata.namespace, p.metadata.name)
        for p in cluster.bound
        if GRANT_KEY in p.metadata.annotations
    }
    return {
        one.name: ReadCards(
            listed=one,
            inventories=_inventories(registry, nodes[one.name], customs[one.name]),
            placed_by_others=frozenset(
                f"{h.namespace}/{h.name}"
                for holders in (
                    *(card.holders for card in one.cards),
                    *(card.holders for card in one.lost),
                )
                for h in holders
                if (h.namespace, h.name) not in granted
            ),
            unclear=tuple(w for w in unpublished if w.startswith(f"node {one.name}: ")),
        )
        for one in listed
        if one.name in nodes
    }


def _inventories(registry: DialectRegistry, node: Node, customs: Sequence[Custom]) -> Any:
    return tuple(
        inventory
        for dialect in registry.readers.values()
        for inventory in dialect.inventory(node, customs)
    )
