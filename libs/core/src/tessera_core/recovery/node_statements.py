"""Bound pods with what their systems say of them on their nodes and on other pods."""

from __future__ import annotations

from collections.abc import Sequence

from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import Node, Pod


def with_node_statements(
    registry: DialectRegistry, nodes: Sequence[Node], pods: Sequence[Pod]
) -> list[Pod]:
    """The pods in their order, node by node as every dialect reads them (`Dialect.on_node`)."""
    places: dict[str, list[int]] = {}
    for i, pod in enumerate(pods):
        places.setdefault(pod.spec.node_name, []).append(i)
    found = list(pods)
    for node in nodes:
        at = places.get(node.name, ())
        on: Sequence[Pod] = [found[i] for i in at]
        for dialect in registry.readers.values() if at else ():
            on = dialect.on_node(node, on)
        for i, pod in zip(at, on, strict=True):
            found[i] = pod
    return found
