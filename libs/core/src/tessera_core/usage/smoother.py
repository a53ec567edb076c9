"""Measurements of containers and cards, smoothed, message by message.

Each message covers an interval of its own; what lies between two of them is not known and counts
for nothing, so a gap costs confidence and moves no mean. Late messages and repeats change
nothing. A node's clock that was set back starts that vendor's cards again. The rows of one vendor's
cards on one node are columns of numpy, so a message costs some array operations however many
containers share the cards.

It does not know who was granted what; `tessera_core.usage.hints` does.
"""

from __future__ import annotations

import math
from sys import intern

from tessera_core.usage.card_window import CardWindow
from tessera_core.usage.smoothed import SmoothingConstants, SmoothNode
from tessera_schema.messages.device_reports import NodeUsage


class Smoother:
    """What is known of all nodes."""

    def __init__(self, constants: SmoothingConstants | None = None) -> None:
        """Nothing was measured yet."""
        self.constants = constants or SmoothingConstants()
        self._windows: dict[str, tuple[CardWindow, ...]] = {}
        """Node -> what each of its agents measured, by vendor."""

    def take(self, usage: NodeUsage, now: float) -> bool:
        """One message; `now` is when it came, in seconds of any clock that never jumps. False when
        it is late, a repeat, or makes no sense: then nothing has changed."""
        if not (math.isfinite(usage.at) and 0 < usage.interval_s < math.inf):
            return False
        windows = self._windows.get(usage.node, ())
        window = next((each for each in windows if each.vendor == usage.vendor), None)
        if window is None or usage.at < window.at - self.constants.keep_s:
            others = [each for each in windows if each is not window]
            window = CardWindow(intern(usage.vendor), self.constants)
            ordered = sorted((*others, window), key=lambda each: each.vendor)
            self._windows[usage.node] = tuple(ordered)
        elif usage.at <= window.at:
            return False
        window.take(usage, now)
        return True

    def node(self, name: str, now: float) -> SmoothNode | None:
        """What is known of a node; None where nothing was measured lately."""
        fresh = [
            each for each in self._windows.get(name, ())
            if now - each.received_at <= self.constants.stale_s
        ]  # fmt: skip
        if not fresh:
            return None
        cards = tuple(card for each in fresh for card in each.cards())
        return SmoothNode(node=name, at=max(each.at for each in fresh), cards=cards)

    def is_silent(self, name: str, now: float) -> bool:
        """Whether `node` would say None."""
        windows = self._windows.get(name, ())
        return all(now - each.received_at > self.constants.stale_s for each in windows)

    def nodes(self) -> tuple[str, ...]:
        """Every node that published something and is not forgotten."""
        return tuple(self._windows)

    def forget(self, now: float) -> list[tuple[str, str]]:
        """Drop what has been silent for long: nodes, and the vendors of their agents."""
        gone: list[tuple[str, str]] = []
        for name, windows in list(self._windows.items()):
            left = [w for w in windows if now - w.received_at <= self.constants.keep_s]
            gone += [(name, each.vendor) for each in windows if each not in left]
            if left:
                self._windows[name] = tuple(left)
            else:
                del self._windows[name]
        return gone
