"""Resource names that an agent advertises on its card node because nobody else does.

kube-scheduler wakes a pod that fitted nowhere for a node only when that node has every name that
the pod asks for, those that it is told to ignore included. The amount says nothing about cards:
what is free is in the ledger, and whoever reads cards from a node's capacity must not see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from tessera_core.registry import Registry
from tessera_schema.kube import Node, Quantity

GENEROUS: Final = str(1 << 50)
"""More than all that a node can run. kube-scheduler adds such amounts up in 64 bits, and multiplies
them by 100 for its scores: this leaves room for both. No plugin counts that far, so the number also
says who wrote it."""


def names_of(registry: Registry, vendor: str) -> frozenset[str]:
    """Every resource name by which a pod can ask for the vendor's cards, in any dialect."""
    speaks = (d for d in registry.readers.values() if d.vendor == vendor)
    return frozenset(name for dialect in speaks for name in dialect.resources)


def allocated_names(registry: Registry, vendor: str) -> frozenset[str]:
    """The names of the vendor's dialects, on or off, that kubelet asks a device plugin to allocate:
    every container that holds the vendor's cards has at least one of them in its limits."""
    speaks = (d for d in registry.readers.values() if d.vendor == vendor)
    return frozenset(name for dialect in speaks for name in dialect.allocated)


def is_generous(quantity: Quantity | None) -> bool:
    """Whether the amount is what agents advertise. API servers keep its spelling."""
    return str(quantity) == GENEROUS


def without_counted(node: Node, names: frozenset[str] = frozenset()) -> Node:
    """The node as it would be if no agent advertised anything. `names` are those that agents of
    ours have kubelet count on it: such an amount says nothing about cards either."""
    status = node.status
    capacity, allocatable = _true(status.capacity, names), _true(status.allocatable, names)
    if (len(capacity), len(allocatable)) == (len(status.capacity), len(status.allocatable)):
        return node
    return replace(node, status=replace(status, capacity=capacity, allocatable=allocatable))


def _true(amounts: Mapping[str, Quantity], names: frozenset[str]) -> dict[str, Quantity]:
    return {
        name: amount for name, amount in amounts.items()
        if not is_generous(amount) and name not in names
    }  # fmt: skip
