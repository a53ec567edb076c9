"""The annotation `scheduling.koordinator.sh/device-allocated`, byte for byte, both ways.

Compact JSON, types and resources in alphabetical order, quantities as canonical text. Readers
take numbers too, old names of resources, and entries without an id (releases up to 1.6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_core.dialect_kit import BadQuantity, binary_quantity, quantity_value
from tessera_core.dialects.koordinator.amounts import MEMORY_MAX
from tessera_core.dialects.koordinator.names import (
    DEPRECATED,
    WIRE_CORE,
    WIRE_MEMORY,
    WIRE_RATIO,
    ResourceKind,
)

GPU: Final = "gpu"


class DeviceAllocation(Struct, frozen=True, omit_defaults=True):
    """One device, as it stands on the wire; the order of fields is the wire's."""

    minor: int
    resources: Mapping[str, str] | None
    id: str = ""


class CardAmounts(Struct, frozen=True, kw_only=True):
    """What a pod has of one card."""

    minor: int
    id: str = ""
    cores_percent: int = 0
    memory_bytes: int = 0
    memory_percent: int = 0


class UnreadableAllocation(ValueError):
    """The annotation says nothing that can be counted; the message says where and why."""


def encode(devices: Mapping[str, Sequence[DeviceAllocation]]) -> str:
    """The annotation's value for each type's devices, in the order given."""
    return _encoder.encode(devices).decode()


def allocation(has: CardAmounts) -> DeviceAllocation:
    """A card's entry. Cores that were not asked for are left out."""
    cores = {WIRE_CORE: str(has.cores_percent)} if has.cores_percent else {}
    memory = {WIRE_MEMORY: binary_quantity(has.memory_bytes), WIRE_RATIO: str(has.memory_percent)}
    return DeviceAllocation(has.minor, cores | memory, has.id)


def percent_of(memory_bytes: int, total_bytes: int) -> int:
    """Koordinator's percent of bytes: rounded down, in 64-bit floats (57Gi of 100Gi is 56)."""
    return int(float(memory_bytes) / float(total_bytes) * 100) if total_bytes else 0


def decode(text: str) -> list[CardAmounts]:
    """The cards that an annotation's value names; empty when it names none.

    Raises UnreadableAllocation.
    """
    try:
        raw = _decode_types(text).get(GPU)
        entries = None if raw is None else _decode_entries(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as e:
        raise UnreadableAllocation(str(e)) from e
    return [_amounts(entry) for entry in entries or ()]


class _Entry(Struct, frozen=True):
    minor: int = 0
    resources: dict[str, Any] | None = None
    id: str = ""


def _amounts(entry: _Entry) -> CardAmounts:
    has = CardAmounts(
        minor=entry.minor,
        id=entry.id,
        cores_percent=_amount(entry, ResourceKind.CORE, WIRE_CORE, 100),
        memory_bytes=_amount(entry, ResourceKind.MEMORY, WIRE_MEMORY, MEMORY_MAX),
        memory_percent=_amount(entry, ResourceKind.RATIO, WIRE_RATIO, 100),
    )
    if not has.memory_bytes and not has.memory_percent:
        raise UnreadableAllocation(f"{GPU} minor {entry.minor} has no amount of memory")
    return has


def _amount(entry: _Entry, kind: ResourceKind, name: str, high: int) -> int:
    resources = entry.resources or {}
    quantity = resources.get(name, resources.get(DEPRECATED[kind], 0))
    place = f"{GPU} minor {entry.minor}, {name}"
    try:
        number = quantity_value(quantity)
    except BadQuantity as e:
        raise UnreadableAllocation(f"{place}: {e}") from e
    if not 0 <= number <= high:
        raise UnreadableAllocation(f"{place}: {quantity} is not between 0 and {high}")
    return number


_encoder = msgspec.json.Encoder(order="deterministic")
_decode_types = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_entries = msgspec.json.Decoder(list[_Entry] | None).decode
