"""Which of two messages about the same thing is newer. Pure.

The source's epoch and sequence show repeats, late messages and those of its earlier life. The order
of different sources is not known: the one that began later is believed.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from tessera_schema.messages.envelope import Envelope

T = TypeVar("T")
_SOURCES: Final = 4
"""Sources remembered of a key: the one that publishes it, and those that it replaced."""


class LatestBySource(Generic[T]):
    """The newest value for each source and key."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, tuple[tuple[int, int], T]]] = {}

    def offer(self, key: str, envelope: Envelope, value: T) -> bool:
        """Keep the value if it is newer than the last of its source; True when it was kept."""
        values = self._values.setdefault(key, {})
        before = values.get(envelope.source)
        if before is not None and before[0] >= envelope.order:
            return False
        values[envelope.source] = envelope.order, value
        if len(values) > _SOURCES:
            del values[min(values, key=lambda source: values[source][0])]
        return True

    def get(self, key: str) -> T | None:
        """The newest value of the key, over all of its sources."""
        values = self._values.get(key)
        return max(values.values(), key=lambda each: each[0])[1] if values else None

    def forget(self, key: str) -> None:
        """Drop the key; a late message about it would count as a new one."""
        self._values.pop(key, None)

    def keys(self) -> tuple[str, ...]:
        """The keys that have a value."""
        return tuple(self._values)
