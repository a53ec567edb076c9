"""Cards that Koordinator publishes: a Device object per node, or only the node's totals.

A card that koordlet reports unhealthy is kept, marked so. Whatever cannot be read is a warning that
names the node and the place, and the rest is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from tessera_core.dialect_kit import (
    MOST_CARDS,
    BadQuantity,
    CapacityScheme,
    Card,
    Custom,
    Inventory,
    Node,
    Precision,
    cards_from_capacity,
    numbered_card_id,
    quantity_value,
)
from tessera_core.dialects.koordinator.amounts import MEMORY_MAX
from tessera_core.dialects.koordinator.names import (
    DEPRECATED,
    DIALECT,
    MODEL_LABELS,
    VENDOR,
    VENDOR_LABEL,
    WIRE_CORE,
    WIRE_MEMORY,
    ResourceKind,
)
from tessera_core.dialects.koordinator.partitions import Groups, groups

KIND: Final = "Device"
DEVICES: Final = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
SLOTS: Final = 100
"""`gpu.shared` of one healthy card: so many pods may share it."""


def invented_id(node: str, number: int) -> str:
    """The id of a card that was published without one; it is written on no pod."""
    return numbered_card_id(node, VENDOR, number)


def inventory(node: Node, customs: Sequence[Custom]) -> tuple[Inventory, ...]:
    """The cards of the node's Device, else by the node's capacity."""
    device = next((c for c in customs if c.kind == KIND and c.metadata.name == node.name), None)
    labels = (device.metadata.labels if device else {}) | node.metadata.labels
    if labels.get(VENDOR_LABEL, VENDOR) != VENDOR:
        return ()
    model = next((labels[name] for name in MODEL_LABELS if name in labels), "")
    if device is None:
        return cards_from_capacity(_counting(model), node)
    warnings: list[str] = []
    messages: list[str] = []
    joined = groups(device.metadata, node.metadata.labels, model, messages)
    warnings += [f"node {node.name}: Device {what}" for what in messages]
    cards = _cards(node, device, _Known(model, joined), warnings)
    if not cards and not warnings:
        return ()
    return (
        Inventory(
            vendor=VENDOR,
            source=DIALECT,
            precision=Precision.REGISTERED,
            cards=tuple(cards),
            warnings=tuple(warnings),
        ),
    )


def _counting(model: str) -> CapacityScheme:
    return CapacityScheme(
        vendor=VENDOR,
        dialect=DIALECT,
        model=model,
        core=WIRE_CORE,
        memory=WIRE_MEMORY,
        cores_per_card=100,
        memory_unit=1,
        memory_by_core=False,
        slots=SLOTS,
    )


class _Topology(Struct, frozen=True, rename="camel"):
    node_id: int = msgspec.field(name="nodeID", default=-1)
    pcie_id: str | int = msgspec.field(name="pcieID", default="")


class _Known(NamedTuple):
    """What is the same for all cards of a node."""

    model: str
    joined: Groups


class _Device(Struct, frozen=True):
    type: str = ""
    labels: dict[str, str] | None = None
    id: str = ""
    minor: int = 0
    health: bool = False
    resources: dict[str, Any] | None = None
    topology: _Topology | None = None


def _cards(node: Node, device: Custom, known: _Known, warnings: list[str]) -> list[Card]:
    entries = device.spec.get("devices") or ()
    if not isinstance(entries, list | tuple):
        warnings.append(_say(node, "spec.devices", "is no list; no card is used"))
        return []
    cards: list[Card] = []
    for n, entry in enumerate(entries):
        if isinstance(entry, Mapping) and entry.get("type", "") != "gpu":
            continue
        place = f"spec.devices[{n}]"
        try:
            card = _card(node, msgspec.convert(entry, _Device, strict=False), known)
        except (msgspec.ValidationError, BadQuantity, ValueError) as e:
            warnings.append(_say(node, place, f"{e}; the card is left out, correct the Device"))
            continue
        if any(c.minor == card.minor or c.id == card.id for c in cards):
            warnings.append(
                _say(node, place, f"minor {card.minor} or id {card.id} is there twice; left out")
            )
        elif len(cards) == MOST_CARDS:
            warnings.append(
                _say(node, place, f"more than {MOST_CARDS} cards; the rest is left out")
            )
            break
        else:
            cards.append(card)
    return cards


def _card(node: Node, device: _Device, known: _Known) -> Card:
    """Raises ValueError for amounts that no card has."""
    memory = _amount(device, ResourceKind.MEMORY, WIRE_MEMORY, 0, MEMORY_MAX)
    if device.health and not memory:
        raise ValueError(f"a healthy card without {WIRE_MEMORY}")
    if device.minor < 0:
        raise ValueError(f"minor {device.minor} is negative")
    topology = device.topology or _Topology()
    return Card(
        id=device.id or invented_id(node.name, device.minor),
        index=device.minor,
        minor=device.minor,
        vendor=VENDOR,
        model=known.model,
        memory_bytes=memory,
        cores_percent=_amount(device, ResourceKind.CORE, WIRE_CORE, 100, 100),
        slots=SLOTS,
        numa=max(topology.node_id, 0),
        switch=str(topology.pcie_id),
        healthy=device.health,
        siting=known.joined.siting(device.labels or {}),
    )


def _amount(device: _Device, kind: ResourceKind, name: str, default: int, high: int) -> int:
    resources = device.resources or {}
    number = quantity_value(resources.get(name, resources.get(DEPRECATED[kind], default)))
    if not 0 <= number <= high:
        raise ValueError(f"{name} {number} is not between 0 and {high}")
    return number


def _say(node: Node, place: str, what: str) -> str:
    return f"node {node.name}: Device {place}: {what}"
