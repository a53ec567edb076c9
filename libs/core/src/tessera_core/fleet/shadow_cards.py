"""Cards that a gang in line will get: they are closed for all but those that may use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct


class ShadowCards(Struct, frozen=True):
    """The cards of one that waits. Those of two that wait are different cards."""

    key: str
    """Who waits (`Shadow.key`)."""
    cards: Mapping[str, frozenset[str]]
    """Node -> ids of its cards there."""
    note: str
    """Who that is, until when, and who passes."""


def by_node(reserved: Iterable[ShadowCards]) -> dict[str, frozenset[str]]:
    """Node -> ids of all cards there that are reserved."""
    found: dict[str, frozenset[str]] = {}
    for each in reserved:
        for node, ids in each.cards.items():
            found[node] = found.get(node, frozenset()) | ids
    return found
