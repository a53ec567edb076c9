"""Whether the processes of a usage file's slots live: each holds a lock on a byte of the file.

The kernel answers one question by going through all locks of the file, and a container may take as
many as it likes. So a look asks a bounded number of questions; of the other slots it repeats the
last answer, and they have their turn at the next looks.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable, Sequence
from typing import Final

from tessera_core.hook import usage_file

MOST_ASKED: Final = 64
"""Slots that one look at one file asks for: a container with more processes on cards is rare."""
_LOCK: Final = struct.Struct("@hhqqi4x")
"""struct flock."""

Ask = Callable[[int, int], bool]
"""Whether a process holds the lock of a slot, by descriptor and the slot's number."""


def is_held(fd: int, number: int) -> bool:
    """Ask the kernel. Where locks cannot be asked for, the slot's word counts."""
    asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, usage_file.ALIVE_AT + number, 1, 0)
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
    except OSError:
        return True
    return bool(_LOCK.unpack(answer)[0] != fcntl.F_UNLCK)


class SlotLocks:
    """Of one file, over all looks at it."""

    def __init__(self, ask: Ask = is_held) -> None:
        """Nothing was asked."""
        self._ask = ask
        self._held: dict[int, bool] = {}
        self._last = -1
        """The slot that was asked for last."""

    def held(self, fd: int, numbers: Sequence[int]) -> frozenset[int]:
        """Which of these slots, in ascending order, have a living process. One that was never asked
        for counts as such."""
        self._held = {number: self._held.get(number, True) for number in numbers}
        later = [number for number in numbers if number > self._last]
        in_turn = (*later, *numbers[: len(numbers) - len(later)])
        for number in in_turn[:MOST_ASKED]:
            self._held[number] = self._ask(fd, number)
            self._last = number
        return frozenset(number for number, held in self._held.items() if held)
