"""Cards of which memory is lent to nobody, because an owner was short of it there: no best-effort
container begins on them.

In memory alone: an agent that begins again has none, until an owner waits again.
"""

from __future__ import annotations

from collections.abc import Mapping


class ClosedCards:
    """Until when which card is closed. Times are the loop's."""

    def __init__(self, *, reclaims: bool) -> None:
        """`reclaims`: whether the agent takes memory back at all."""
        self.reclaims = reclaims
        self._until: dict[str, float] = {}

    def close(self, card: str, until_s: float) -> None:
        """Close the card until then."""
        self._until[card] = max(until_s, self._until.get(card, until_s))

    def left(self, now_s: float) -> Mapping[str, float]:
        """Closed card -> seconds until it opens."""
        return {card: until - now_s for card, until in self._until.items() if until > now_s}

    def reclaiming(self, card: str, now_s: float) -> bool:
        """Whether memory of the card may be lent: it is taken back where an owner needs it."""
        return self.reclaims and now_s >= self._until.get(card, now_s)
