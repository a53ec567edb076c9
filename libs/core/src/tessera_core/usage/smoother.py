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

from tessera_core.usage.card_window import CardWindow
from tessera_core.usage.smoothed import SmoothingConstants, SmoothNode
from tessera_schema.messages.device_reports import NodeUsage


class Smoother:
    """What is known of all nodes."""

    def __init__(self, constants: SmoothingConstants | None = None) -> None:
        """Nothing was measured yet."""
        self.constants = constants or SmoothingConstants()
        self._blocks: dict[str, dict[str, CardWindow]] = {}

    def take(self, usage: NodeUsage, now: float) -> bool:
        """One message; `now` is when it came, in seconds of any clock that never jumps. False when
        it is late, a repeat, or makes no sense: then nothing has changed."""
        if not (math.isfinite(usage.at) and 0 < usage.interval_s < math.inf):
            return False
        blocks = self._blocks.setdefault(usage.node, {})
        block = blocks.get(usage.vendor)
        if block is None or usage.at < block.at - self.constants.keep_s:
            block = blocks[usage.vendor] = CardWindow(usage.vendor, self.constants)
        elif usage.at <= block.at:
            return False
        block.take(usage, now)
        return True

    def node(self, name: str, now: float) -> SmoothNode | None:
        """What is known of a node; None where nothing was measured lately."""
        fresh = [
            block for _, block in sorted(self._blocks.get(name, {}).items())
            if now - block.received_at <= self.constants.stale_s
        ]  # fmt: skip
        if not fresh:
            return None
        cards = tuple(card for block in fresh for card in block.cards())
        return SmoothNode(node=name, at=max(block.at for block in fresh), cards=cards)

    def is_silent(self, name: str, now: float) -> bool:
        """Whether `node` would say None."""
        blocks = self._blocks.get(name, {}).values()
        return all(now - block.received_at > self.constants.stale_s for block in blocks)

    def nodes(self) -> tuple[str, ...]:
        """Every node that published something and is not forgotten."""
        return tuple(self._blocks)

    def forget(self, now: float) -> list[tuple[str, str]]:
        """Drop what has been silent for long: nodes, and the vendors of their agents."""
        gone = [
            (name, vendor)
            for name, blocks in self._blocks.items()
            for vendor, block in blocks.items()
            if now - block.received_at > self.constants.keep_s
        ]
        for name, vendor in gone:
            del self._blocks[name][vendor]
        for name in [name for name, blocks in self._blocks.items() if not blocks]:
            del self._blocks[name]
        return gone
