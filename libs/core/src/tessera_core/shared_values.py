"""Equal values, held once. Pods of one controller differ in little more than their names and their
cards: a service that holds 100,000 pods holds what they have in common once.

What is shared must never be changed in place. A table that is full starts again: values that are
held go on as they are, and later ones are shared among themselves.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
N = TypeVar("N", int, float)
MOST_SHARED: Final = 20_000
"""Values of one table: some MB where no two are equal."""
MOST_NUMBERS: Final = 8192
"""Numbers of which equal ones are one object; the oldest give way."""
_DIGEST: Final = 16
_encode: Final = msgspec.msgpack.Encoder().encode


@lru_cache(MOST_NUMBERS, typed=True)
def one_number(number: N) -> N:
    """The number, or one that is equal to it and of its type. Most shares, and most hints, are of a
    few sizes."""
    return number


class SharedValues:
    """A table of values by their type and content."""

    def __init__(self, most: int = MOST_SHARED) -> None:
        """Holds `most` values at most."""
        self._most = most
        self._known: dict[bytes, Any] = {}

    def __len__(self) -> int:
        """How many values it holds."""
        return len(self._known)

    def one(self, value: T) -> T:
        """The value, or one that is equal to it and of its type. It is a Struct, or plain values;
        one that msgpack cannot encode (a number of more than 64 bits) is not shared."""
        try:
            text = _encode(value)
        except (OverflowError, RecursionError):
            return value
        digest = blake2b(text, digest_size=_DIGEST, key=type(value).__name__.encode()).digest()
        if len(self._known) >= self._most:
            self._known.clear()
        shared: T = self._known.setdefault(digest, value)
        return shared
