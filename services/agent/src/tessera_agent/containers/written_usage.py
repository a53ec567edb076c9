"""Reads the part of a usage file in which something is written: of 268 KiB, some two.

The file is the container's to write. A card's record or a slot that it says was never used is not
read, as if it had been cleared.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Packed
from typing import Final

from tessera_core.hook.records import CARDS, ORDER
from tessera_core.hook.usage_file import (
    CARD,
    CARD_AT,
    FILE,
    KERNEL_TIMES,
    KERNEL_TIMES_AT,
    SIZE,
    SLOT,
    SLOT_AT,
    SLOTS,
)

_CARD_BYTES: Final = CARD.offsets["bin"]
"""Of a record, without the hook's ring of milliseconds."""
_USED_FROM_END: Final = CARD.offsets["used"] - _CARD_BYTES
"""In a part that ends with a card's record."""
_HIGH_AT: Final = FILE.offsets["slots_high"]
_WORD: Final = Packed(f"{ORDER}I")

_zeros: Final = bytes(SIZE)
_room: Final = bytearray(SIZE)
"""A whole file, one at a time; zero between two."""
_laying_out: Final = threading.Lock()

Parts = list[tuple[int, bytes]]
"""Where each begins in the file, and what is there."""


class ShortUsageFile(Exception):
    """The file ends before what should be there."""


def written_parts(fd: int) -> Parts:
    """The parts of the file in which the hook wrote for its reader. Raises ShortUsageFile,
    OSError."""
    parts = [_part(fd, 0, CARD_AT + _CARD_BYTES)]
    cards = 0
    while cards < CARDS and _word(parts[-1][1], _USED_FROM_END):
        cards += 1
        if cards < CARDS:
            parts.append(_part(fd, CARD_AT + cards * CARD.size, _CARD_BYTES))
    if cards:
        high = _word(parts[0][1], _HIGH_AT)
        slots = high if 0 < high <= SLOTS else SLOTS
        parts.append(_part(fd, SLOT_AT, slots * SLOT.size))
        parts.append(_part(fd, KERNEL_TIMES_AT, cards * KERNEL_TIMES.size))
    return parts


@contextmanager
def laid_out(parts: Parts) -> Iterator[bytearray]:
    """The file as it is, with zeros where the hook never wrote and where it writes for itself, for
    as long as the block lasts; another thread waits."""
    with _laying_out:
        try:
            for at, part in parts:
                _room[at : at + len(part)] = part
            yield _room
        finally:
            for at, part in parts:
                _room[at : at + len(part)] = _zeros[: len(part)]


def _part(fd: int, at: int, size: int) -> tuple[int, bytes]:
    part = os.pread(fd, size, at)
    if len(part) != size:
        raise ShortUsageFile
    return at, part


def _word(part: bytes, at: int) -> int:
    number: int = _WORD.unpack_from(part, at)[0]
    return number
