"""Which pods have changed, for readers that the writer does not know.

A reader remembers the place up to which it has read, and later gets what changed between that place
and another. A reader that is gone leaves nothing behind. When a log has become long, or its writer
is replaced, another log begins: between places in two logs, all pods may have changed.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from msgspec import Struct

MOST_CHANGES: Final = 65_536
"""Changes that a log holds at most: more than a list of 50,000 pods makes."""


class ChangePlace(Struct, frozen=True, eq=False):
    """How far a log was written at some time."""

    lines: list[str]
    """The log itself, which grows."""
    count: int

    def since(self, before: ChangePlace | None) -> Set[str] | None:
        """Uids of the pods that differ between the two places, and perhaps some that do not; None
        where every pod may. Either place may be the later one."""
        if before is None or before.lines is not self.lines:
            return None
        few, many = sorted((before.count, self.count))
        return set(self.lines[few:many])


class ChangeLog:
    """Written where the pods change."""

    def __init__(self) -> None:
        """Nothing has changed."""
        self._lines: list[str] = []

    def add(self, uid: str) -> None:
        """The pod came, went, or is another than before."""
        if len(self._lines) >= MOST_CHANGES:
            self._lines = []
        self._lines.append(uid)

    def here(self) -> ChangePlace:
        """The end of the log as it is now."""
        return ChangePlace(self._lines, len(self._lines))
