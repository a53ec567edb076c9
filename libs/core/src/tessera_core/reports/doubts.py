"""Why a report, or a part of it, does not count."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Doubt(StrEnum):
    """The reason, as the metric's label has it."""

    UNREADABLE = "unreadable"
    """It is no report at all."""
    VENDOR = "vendor"
    """No vendor of that name is known."""
    SUBJECT = "subject"
    """It came on a subject of another node or vendor."""
    NODE = "node"
    """There is no such node, or no agent of that vendor publishes cards there."""
    UNSIGNED = "unsigned"
    """It has no signature, or the node shows no key by which it could be checked."""
    SIGNATURE = "signature"
    """Its signature is by another key, or of another message."""
    NUMBERS = "numbers"
    """An amount that no card has: negative, not finite, or beyond belief."""
    CARD = "card"
    """A card that the vendor's agent does not publish on the node, or that the pod does not hold
    there."""
    POD = "pod"
    """A pod that the ledger does not have on the node."""
    EXCESS = "excess"
    """More than a card has: the rest of it is left out."""


Notice = Callable[[str, Doubt, str], None]
"""Takes the node (empty = not known), the reason, and what is wrong in words."""


class Doubts:
    """Collects what is doubted about one report, each reason once."""

    def __init__(self) -> None:
        """Nothing is doubted."""
        self.found: dict[Doubt, str] = {}

    def add(self, doubt: Doubt, what: str) -> None:
        """The first of each reason is kept, in words of bounded length."""
        self.found.setdefault(doubt, what[:MOST_WORDS])


MOST_WORDS = 200
"""Characters of what is said about a doubt: names in a report may be as long as the report."""
