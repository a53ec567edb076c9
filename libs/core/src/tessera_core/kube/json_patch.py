"""Changes of a JSON document, recorded as a JSON patch (RFC 6902) while they are made.

What is already so is not recorded, so a patch is as small as the change, and making the same
changes on the patched document records nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

Where = tuple[str | int, ...]


class JsonPatchStep(Struct, frozen=True, omit_defaults=True):
    """One operation of a JSON patch."""

    op: str
    path: str
    value: Any | UnsetType = UNSET


class JsonPatchRecorder:
    """A decoded JSON object under change."""

    def __init__(self, document: dict[str, Any]) -> None:
        """`document` is taken over and changed."""
        self.now = document
        self._steps: list[JsonPatchStep] = []

    @property
    def steps(self) -> tuple[JsonPatchStep, ...]:
        """The patch so far."""
        return tuple(self._steps)

    def get(self, where: Where) -> Any:
        """What is there; None for nothing."""
        found: Any = self.now
        for key in where:
            if isinstance(key, int):
                found = found[key] if isinstance(found, list) and key < len(found) else None
            else:
                found = found.get(key) if isinstance(found, dict) else None
        return found

    def put(self, where: Where, value: Any) -> None:
        """Set a member of an object or replace an item of a list; missing objects are made."""
        here, key = where[:-1], where[-1]
        inside = self.get(here)
        if isinstance(key, int):
            if inside[key] != value:
                self._record("replace", where, value)
                inside[key] = value
        elif not isinstance(inside, dict):
            self.put(here, {key: value})
        elif key not in inside or inside[key] != value:
            self._record("replace" if key in inside else "add", where, value)
            inside[key] = value

    def update(self, where: Where, members: Mapping[str, Any]) -> None:
        """Set several members of an object; in one step where it has none yet."""
        if members and not self.get(where):
            self.put(where, dict(members))
            return
        for key, value in members.items():
            self.put((*where, key), value)

    def append(self, where: Where, item: Any) -> None:
        """Add an item to the end of a list, which is made where it is missing."""
        inside = self.get(where)
        if not isinstance(inside, list):
            self.put(where, [item])
            return
        self._record("add", (*where, "-"), item)
        inside.append(item)

    def drop(self, where: Where) -> None:
        """Take away a member or an item, if it is there."""
        here, key = where[:-1], where[-1]
        inside = self.get(here)
        there = (
            isinstance(inside, list) and key < len(inside)
            if isinstance(key, int)
            else isinstance(inside, dict) and key in inside
        )
        if there:
            self._record("remove", where)
            del inside[key]

    def _record(self, op: str, where: Where, value: Any = UNSET) -> None:
        self._steps.append(JsonPatchStep(op=op, path=pointer(where), value=value))


def pointer(where: Where) -> str:
    """The place as RFC 6901 writes it."""
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in where)
