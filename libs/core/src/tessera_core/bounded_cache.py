"""What is remembered for as long as there is room: bounded by bytes, the oldest gives way.

What is forgotten costs time, never an answer: it can be read or worked out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Cache(Generic[Value]):
    """Values by key, the one that was kept last being the youngest."""

    def __init__(self, most_bytes: int) -> None:
        """Keeps nothing yet. The youngest is kept whatever its size."""
        self._most = most_bytes
        self._kept: dict[str, tuple[Value, int]] = {}
        self.bytes = 0
        """Of all that is kept, as `keep` was given them."""

    def __len__(self) -> int:
        """How many values are kept."""
        return len(self._kept)

    def get(self, key: str) -> Value | None:
        """The key's value, where it is kept."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def keep(self, key: str, value: Value, size: int) -> None:
        """Keep a value of `size` bytes instead of the key's former one."""
        self.forget(key)
        self._kept[key] = value, size
        self.bytes += size
        while self.bytes > self._most and len(self._kept) > 1:
            self.forget(next(iter(self._kept)))

    def forget(self, key: str) -> None:
        """The key has no value any more."""
        self.bytes -= self._kept.pop(key, (None, 0))[1]

    def items(self) -> Iterator[tuple[str, Value]]:
        """All of them, the oldest first."""
        return ((key, value) for key, (value, _) in self._kept.items())
