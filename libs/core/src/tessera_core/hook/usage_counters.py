"""A short read of one card's record of a usage file: the few counters that lending and reclaim need
ten times a second, in 224 bytes. What the file says of everything else is `usage`'s part.

The container writes them: they are passed on as they are, and the user of them bounds what follows.
"""

from __future__ import annotations

from struct import Struct as Packed
from typing import Final, NamedTuple

from tessera_core.hook.records import CARDS, ORDER, UUID_BYTES, text_of, uuid_key
from tessera_core.hook.usage_file import CARD, CARD_AT

SIZE: Final = CARD.offsets["last_launch_ns"]
"""Bytes from a record's beginning that a short read takes in."""
_COUNTERS: Final = Packed(f"{ORDER}QQQ")
_COUNTERS_AT: Final = CARD.offsets["gpu_ns"]
ACTIVITY_SIZE: Final = CARD.field_size("throttled_ns") + CARD.field_size("launches")
ACTIVITY: Final = slice(CARD.offsets["throttled_ns"], CARD.offsets["throttled_ns"] + ACTIVITY_SIZE)
"""What changes whenever the container launches or is held back: two counters, side by side."""
_NUMBER: Final = Packed(f"{ORDER}Q")
_RAW_AT: Final = CARD.offsets["raw_ns"]
_MEMORY_AT: Final = tuple(
    CARD.offsets[field]
    for field in ("charged_bytes", "wanted_bytes", "wanted_at_ns", "failed_for_others")
)


class UsageCounters(NamedTuple):
    """One container's work on one card so far."""

    gpu_ns: int = 0
    throttled_ns: int = 0
    launches: int = 0


NOTHING: Final = UsageCounters()


class MemoryCounters(NamedTuple):
    """One container's memory of one card."""

    charged_bytes: int = 0
    wanted_bytes: int = 0
    """For which it waits."""
    wanted_at_ns: int = 0
    """Wall clock, when it last said so; 0 = it does not wait."""
    failed_for_others: int = 0
    """Allocations that the driver refused although its limit had room."""


def record_at(position: int) -> int:
    """Where the record of that number begins in the file."""
    if not 0 <= position < CARDS:
        raise ValueError(f"card record {position}: there are {CARDS}")
    return CARD_AT + position * CARD.size


def is_of(data: bytes, key: str) -> bool:
    """Whether the beginning of a record is that of the card whose id `uuid_key` spells so."""
    return len(data) == SIZE and uuid_key(text_of(data[:UUID_BYTES])) == key


def read_counters(data: bytes) -> UsageCounters:
    """What the beginning of a record says; it must be `SIZE` long."""
    return UsageCounters(*_COUNTERS.unpack_from(data, _COUNTERS_AT))


def read_memory(data: bytes) -> MemoryCounters:
    """The same of its memory."""
    return MemoryCounters(*(_NUMBER.unpack_from(data, at)[0] for at in _MEMORY_AT))


def read_raw_ns(data: bytes) -> int:
    """GPU time as the hook measured and predicted it, before corrections."""
    number: int = _NUMBER.unpack_from(data, _RAW_AT)[0]
    return number
