"""What an agent writes into its node's status because no device plugin does: how much of each
resource name the node's cards amount to.

kube-scheduler wakes a pod that fitted nowhere for a node only when that node has every name that
the pod asks for, those that it is configured to ignore included, and kubelet adds the amounts up
over its pods. So each name has what a dialect could ask of these cards if all pods spoke that one:
never less than the ledger can grant. What is free is in the ledger; cards are never read from such
amounts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from tessera_core.dialect_kit.contract import Capacity, Dialect, Dimension, Measure
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.cards import Card
from tessera_schema.kube import Node, Quantity

FORMER: Final = str(1 << 50)
"""What agents of the first release wrote for every name, so that it is known as an agent's."""
_LIKE: Final = {
    Dimension.MEMORY: Measure.MEMORY, Dimension.CORES: Measure.CORES,
    Dimension.CARDS: Measure.SLOTS,
}  # fmt: skip
_HUNDRED: Final = 100
_ROUNDING: Final = 1e-6
"""Units may be fractions: 100 / 0.01 is to be 10,000, and 100 / 6.25 is 16."""


def names_of(registry: DialectRegistry, vendor: str) -> frozenset[str]:
    """Every resource name by which a pod can ask for the vendor's cards, in any dialect."""
    speaks = (d for d in registry.readers.values() if d.vendor == vendor)
    return frozenset(name for dialect in speaks for name in dialect.resources)


def allocated_names(registry: DialectRegistry, vendor: str) -> frozenset[str]:
    """The names of the vendor's dialects, on or off, that kubelet asks a device plugin to allocate:
    every container that holds the vendor's cards has at least one of them in its limits."""
    speaks = (d for d in registry.readers.values() if d.vendor == vendor)
    return frozenset(name for dialect in speaks for name in dialect.plugin_resources)


def amounts_of(registry: DialectRegistry, vendor: str, cards: Iterable[Card]) -> dict[str, int]:
    """Resource name -> what the vendor's cards on one node amount to, healthy or not, in the units
    of the dialect that owns the name; hidden ones amount to nothing. Of a name that two dialects
    measure, the larger amount."""
    cards = tuple(card for card in cards if not card.hidden)
    found: dict[str, int] = {}
    for dialect in registry.readers.values():
        for name in dialect.resources if dialect.vendor == vendor else ():
            capacity = _capacity(dialect, name)
            amount = sum(_amount(card, capacity) for card in cards if _counts(card, capacity))
            found[name] = max(found.get(name, 0), amount)
    return found


def _capacity(dialect: Dialect, name: str) -> Capacity:
    if name in dialect.capacity:
        return dialect.capacity[name]
    quota = dialect.quota.get(name)
    return (
        Capacity(Measure.SLOTS) if quota is None else Capacity(_LIKE[quota.dimension], quota.unit)
    )


def _counts(card: Card, capacity: Capacity) -> bool:
    model = card.model.lower()
    return capacity.model.lower() in model and not any(o.lower() in model for o in capacity.others)


def _amount(card: Card, capacity: Capacity) -> int:
    whole: dict[Measure, float] = {
        Measure.CARDS: 1, Measure.SLOTS: card.slots, Measure.MEMORY: card.memory_bytes,
        Measure.MEMORY_PERCENT: _HUNDRED, Measure.CORES: card.cores_percent,
    }  # fmt: skip
    return int(whole[capacity.measure] / capacity.unit + _ROUNDING)


def is_former(quantity: Quantity | None) -> bool:
    """Whether agents of the first release wrote the amount. API servers keep its spelling."""
    return str(quantity) == FORMER


def without_advertised(node: Node, names: Collection[str] = frozenset()) -> Node:
    """The node as it would be if no agent had written amounts. `names` are those that the node's
    agents write, or have kubelet count."""
    status = node.status
    capacity, allocatable = _true(status.capacity, names), _true(status.allocatable, names)
    if (len(capacity), len(allocatable)) == (len(status.capacity), len(status.allocatable)):
        return node
    return replace(node, status=replace(status, capacity=capacity, allocatable=allocatable))


def _true(amounts: Mapping[str, Quantity], names: Collection[str]) -> dict[str, Quantity]:
    return {n: a for n, a in amounts.items() if not is_former(a) and n not in names}
