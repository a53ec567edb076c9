"""Reads the part of a usage file in which something is written: of 268 KiB, some two.

The file is the container's to write. A card's record or a slot that it says was never used is not
read, as if it had been cleared.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from struct import unpack_from
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
_HIGH_AT: Final = FILE.offsets["slots_high"]

_room: Final = bytearray(SIZE)
"""Where files are read into, one at a time; zero between two."""
_view: Final = memoryview(_room)
_zeros: Final = memoryview(bytes(SIZE))
_reading: Final = threading.Lock()


class ShortUsageFile(Exception):
    """The file ends before what should be there."""


@contextmanager
def written_usage(fd: int) -> Iterator[bytearray]:
    """The file as it is, with zeros where the hook never wrote and where it writes for itself, for
    as long as the block lasts; another thread waits. Raises ShortUsageFile, OSError."""
    with _reading:
        filled: list[slice] = []
        try:
            for at, size in _parts():
                part = slice(at, at + size)
                filled.append(part)
                if os.preadv(fd, [_view[part]], at) != size:
                    raise ShortUsageFile
            yield _room
        finally:
            for part in filled:
                _view[part] = _zeros[part]


def _parts() -> Iterator[tuple[int, int]]:
    """Where to read, and how much; each follows from what was read before."""
    yield 0, CARD_AT + _CARD_BYTES
    cards = 0
    while cards < CARDS and _word(CARD_AT + cards * CARD.size + CARD.offsets["used"]):
        cards += 1
        if cards < CARDS:
            yield CARD_AT + cards * CARD.size, _CARD_BYTES
    if cards:
        high = _word(_HIGH_AT)
        yield SLOT_AT, (high if 0 < high <= SLOTS else SLOTS) * SLOT.size
        yield KERNEL_TIMES_AT, cards * KERNEL_TIMES.size


def _word(at: int) -> int:
    number: int = unpack_from(f"{ORDER}I", _room, at)[0]
    return number
