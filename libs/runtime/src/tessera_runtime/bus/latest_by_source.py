"""Which of two messages about the same thing is newer. Pure.

Repeats, late ones and those of a source's earlier life are told by the source's epoch and sequence.
The order of different sources is not known: the one that began later is believed.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from tessera_schema.messages.envelope import Envelope

T = TypeVar("T")
_SOURCES: Final = 4
"""Sources remembered of a key: its teller, and whom it replaced."""


class LatestBySource(Generic[T]):
    """The newest value for each source and key."""

    def __init__(self) -> None:
        """It knows nothing yet."""
        self._held: dict[str, dict[str, tuple[tuple[int, int], T]]] = {}

    def offer(self, key: str, envelope: Envelope, value: T) -> bool:
        """Keep the value if nothing newer or equal of its source is held; True when it was kept."""
        held = self._held.setdefault(key, {})
        before = held.get(envelope.source)
        if before is not None and before[0] >= envelope.order:
            return False
        held[envelope.source] = envelope.order, value
        if len(held) > _SOURCES:
            del held[min(held, key=lambda source: held[source][0])]
        return True

    def get(self, key: str) -> T | None:
        """The newest value of the key, over all of its sources."""
        held = self._held.get(key)
        return max(held.values(), key=lambda each: each[0])[1] if held else None

    def forget(self, key: str) -> None:
        """The key is gone; a late message about it would be taken for a new one."""
        self._held.pop(key, None)

    def keys(self) -> tuple[str, ...]:
        """What is known about."""
        return tuple(self._held)
