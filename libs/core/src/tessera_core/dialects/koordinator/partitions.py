"""Which cards of a node its maker joins into groups: the Device's table, or one known by model.

    {"2": [{"minors": [0, 1], "gpuLinkType": "NVLink", "ringBusBandwidth": "400Gi",
            "allocationScore": 1}]}

The number of cards is the key. A table that cannot be read is a warning that names the place, and
the groups that can be read count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tessera_core.dialect_kit import MOST_CARDS, ObjectMeta, Partition, Siting, quantity_value
from tessera_core.dialects.koordinator.amounts import MEMORY_MAX
from tessera_core.dialects.koordinator.names import PARTITION_LABEL, PARTITION_TABLE

HONOR: Final = "Honor"
_JOINED_MODELS: Final = ("H100", "H800", "H20")
_KNOWN: Final = tuple(
    Partition(minors=tuple(range(first, first + size)))
    for size in (1, 2, 4, 8)
    for first in range(0, 8, size)
)
"""Boards of eight cards: by one, two, four and eight."""
_MOST_SCORE: Final = 1_000_000


class Groups(Struct, frozen=True):
    """A node's groups, and whether whole cards are given in them alone."""

    partitions: tuple[Partition, ...] = ()
    honored: bool = False

    def siting(self, labels: Mapping[str, str]) -> Siting | UnsetType:
        """The siting of a card with these labels of its own."""
        if not (self.partitions or self.honored or labels):
            return UNSET
        return Siting(labels=dict(labels), partitions=self.partitions, partitioned=self.honored)


class _Entry(Struct, frozen=True, rename="camel"):
    minors: tuple[int, ...] = ()
    ring_bus_bandwidth: str | int = 0
    allocation_score: int = 1


def groups(
    device: ObjectMeta, node_labels: Mapping[str, str], model: str, warnings: list[str]
) -> Groups:
    """The groups of the Device's table, or where it has none those of its cards' model. Whose
    label makes them the law depends on where they are from, as in Koordinator."""
    text = device.annotations.get(PARTITION_TABLE)
    if text is None:
        known = _KNOWN if model in _JOINED_MODELS else ()
        return Groups(known, node_labels.get(PARTITION_LABEL) == HONOR)
    return Groups(_read(text, warnings), device.labels.get(PARTITION_LABEL) == HONOR)


def _read(text: str, warnings: list[str]) -> tuple[Partition, ...]:
    try:
        table = _decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as e:
        warnings.append(f"metadata.annotations[{PARTITION_TABLE}]: {e}; no partition is known")
        return ()
    found: list[Partition] = []
    for count, entries in table.items():
        for n, raw in enumerate(entries or ()):
            place = f"metadata.annotations[{PARTITION_TABLE}][{count}][{n}]"
            try:
                found.append(_partition(count, raw))
            except (msgspec.ValidationError, ValueError) as e:
                warnings.append(f"{place}: {e}; this partition is not used")
    return tuple(found)


def _partition(count: str, raw: Any) -> Partition:
    """Raises ValueError for what is no group of so many cards."""
    entry = msgspec.convert(raw, _Entry)
    minors = tuple(sorted(set(entry.minors)))
    if not minors or str(len(minors)) != count or len(minors) != len(entry.minors):
        raise ValueError(f"minors {list(entry.minors)} are not {count} cards")
    if minors[0] < 0 or minors[-1] >= MOST_CARDS:
        raise ValueError(f"minors {list(minors)}: write 0 to {MOST_CARDS - 1}")
    if not 0 <= entry.allocation_score <= _MOST_SCORE:
        raise ValueError(f"allocationScore {entry.allocation_score}: write 0 to {_MOST_SCORE}")
    bandwidth = quantity_value(entry.ring_bus_bandwidth)
    if not 0 <= bandwidth <= MEMORY_MAX:
        raise ValueError(f"ringBusBandwidth {entry.ring_bus_bandwidth}: write 0 to {MEMORY_MAX}")
    return Partition(minors=minors, score=entry.allocation_score, bandwidth=bandwidth)


_decode = msgspec.json.Decoder(dict[str, list[Any] | None]).decode
