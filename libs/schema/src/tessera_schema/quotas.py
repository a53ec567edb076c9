"""Limits of a namespace, in the same canonical units as the books."""

from __future__ import annotations

from msgspec import Struct


class Limit(Struct, frozen=True, kw_only=True):
    """One quota object, translated. None = not limited in that dimension; 0 refuses
    every pod that asks for any of it."""

    namespace: str
    source: str
    """Kind and name, for messages."""
    vendor: str = ""
    """Empty = all vendors together."""
    memory_bytes: int | None = None
    cores_percent: float | None = None
    cards: int | None = None
    """Cards held: a card counts once for each pod that holds a part of it."""
    models: dict[str, float] | None = None
    """Model (case-insensitive substring) -> cards, parts of cards counting by the larger of
    their memory and core share. A model that matches no entry is denied (GPU Manager's rule)."""
