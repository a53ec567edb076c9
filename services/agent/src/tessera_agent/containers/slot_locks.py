"""Whether the processes of a usage file's slots live: each holds a lock on a byte of the file.

The kernel answers one query by going through all locks of the file, and a container may take as
many as it likes. So each read makes a bounded number of queries; the other slots keep their last
answer until their turn at one of the next reads.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable, Sequence
from typing import Final

from tessera_core.hook import usage_file

MOST_ASKED: Final = 64
"""Slots that one read of one file queries: a container with more processes on cards is rare."""
_LOCK: Final = struct.Struct("@hhqqi4x")
"""struct flock."""

LockQuery = Callable[[int, int], bool]
"""Whether a process holds the lock of a slot, by descriptor and the slot's number."""


def has_lock(fd: int, number: int) -> bool:
    """Query the kernel. True where locks cannot be queried: then what the slot says counts."""
    query = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, usage_file.ALIVE_AT + number, 1, 0)
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, query)
    except OSError:
        return True
    return bool(_LOCK.unpack(answer)[0] != fcntl.F_UNLCK)


class SlotLocks:
    """The locks of one file, over all reads of it."""

    def __init__(self, query: LockQuery = has_lock) -> None:
        self._query = query
        self._alive: dict[int, bool] = {}
        self._last = -1
        """The slot that was queried last."""

    def alive(self, fd: int, numbers: Sequence[int]) -> frozenset[int]:
        """Which of these slots, in ascending order, have a living process. A slot that was never
        queried counts as such."""
        self._alive = {number: self._alive.get(number, True) for number in numbers}
        later = [number for number in numbers if number > self._last]
        in_turn = (*later, *numbers[: len(numbers) - len(later)])
        for number in in_turn[:MOST_ASKED]:
            self._alive[number] = self._query(fd, number)
            self._last = number
        return frozenset(number for number, lives in self._alive.items() if lives)
