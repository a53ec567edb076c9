"""Resource names that a node hands out before Tessera's agent is there.

kubelet asks the device plugin that registered a name. A plan on a cluster of another system may
put a pod on cards that its system publishes, while nothing on that node hands out the names that
the pod asks by: the pod gets its cards once our agent runs there, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping

from tessera_core.inventory.merge import OWN_SOURCE, NodeCards
from tessera_core.kube.quantity import BadQuantity, quantity_value
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.grants import Grant
from tessera_schema.kube import Node, Quantity
from tessera_schema.verdicts import ContainerAfter


class ServedNames:
    """What the nodes of a cluster hand out, by what they publish."""

    def __init__(self, registry: DialectRegistry) -> None:
        """Knows no node yet."""
        self._registry = registry
        self._names: dict[str, frozenset[str]] = {}
        self._sources: dict[str, frozenset[tuple[str, str]]] = {}
        self._labelled: dict[str, frozenset[str]] = {}

    def put(self, node: Node, published: NodeCards) -> None:
        """Take in a node and what is published of its cards."""
        there = (name for name, amount in node.status.capacity.items() if not _is_zero(amount))
        self._names[node.name] = frozenset(there)
        self._sources[node.name] = published.sources
        self._labelled[node.name] = published.labelled

    def lacking(self, grant: Grant, containers: Mapping[str, ContainerAfter]) -> tuple[str, ...]:
        """A sentence for each container of a placed pod that nothing on the node serves today.
        `containers` are as admission leaves them."""
        found: dict[str, None] = {}
        for share in grant.shares:
            dialect = self._registry.readers[share.dialect]
            if dialect.vendor in self._labelled[grant.node]:
                found[
                    f"container {share.container} needs Tessera's agent on node {grant.node}, in "
                    "place of the device plugin there, which chooses cards by itself"
                ] = None
                continue
            asked = [n for n in containers[share.container].limits if n in dialect.resources]
            if asked and not self._serves(grant.node, share.dialect, frozenset(asked)):
                found[
                    f"container {share.container} needs Tessera's agent on node {grant.node}: "
                    f"no device plugin there hands out {asked[0]}"
                ] = None
        return tuple(found)

    def _serves(self, node: str, name: str, asked: frozenset[str]) -> bool:
        dialect = self._registry.readers[name]
        there, sources = self._names[node], self._sources[node]
        if (dialect.vendor, OWN_SOURCE) in sources or asked & there:
            return True
        # A system that publishes its cards without any of its names, or that borrows the name of
        # another system's plugin, gives them without kubelet.
        by_itself = dialect.resources.isdisjoint(there) or bool(asked & dialect.shared_names)
        return (dialect.vendor, name) in sources and by_itself


def _is_zero(amount: Quantity) -> bool:
    try:
        return quantity_value(amount) == 0
    except BadQuantity:
        return False
