"""Hints of nodes, told when they say something new, and again now and then.

A node that fell silent is not told of again: its last hints grow old where they are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from msgspec import Struct

from tessera_core.usage.hints import HintBuilder, SignificantChanges, is_significant
from tessera_core.usage.smoother import Smoother
from tessera_rebalancer.pods import GrantedPods
from tessera_rebalancer.settings import HintPublisherSettings
from tessera_rebalancer.usage_listener import UsageConsumer
from tessera_runtime.bus.outbox import Outbox
from tessera_schema.messages.event_catalogue import HINT_TOLD
from tessera_schema.messages.hints import NodeHints, encode_hints
from tessera_schema.subjects import HINTS_BUCKET, token

_FORGET_EVERY: Final = 60
"""Looks between two times that nodes which are gone are forgotten."""
_AT_ONCE: Final = 50
"""Nodes looked at before others on the loop have their turn: some milliseconds."""


class HintSources(Struct, frozen=True, kw_only=True):
    """What hints are made of."""

    usage: UsageConsumer
    smoother: Smoother
    hinting: HintBuilder
    pods: GrantedPods


class HintPublisher:
    """Tells."""

    def __init__(
        self,
        sources: HintSources,
        outbox: Outbox,
        settings: HintPublisherSettings,
        steps: SignificantChanges,
        now: Callable[[], float],
    ) -> None:
        """`now` is the loop's time."""
        self.told: dict[str, NodeHints] = {}
        """The newest of each node that is measured."""
        self.count = 0
        """Messages."""
        self._of = sources
        self._outbox = outbox
        self._settings = settings
        self._steps = steps
        self._now = now
        self._told_at: dict[str, float] = {}

    async def run(self) -> NoReturn:
        """Tell, for ever."""
        while True:
            for _ in range(_FORGET_EVERY):
                await asyncio.sleep(self._settings.look_s)
                await self.turn()
            self._of.usage.forget()

    async def turn(self) -> None:
        """One look at every node of which something new was measured."""
        fresh = sorted(self._of.usage.fresh)
        for number, node in enumerate(fresh, 1):
            if self._is_due(node):
                self._of.usage.fresh.discard(node)
                self._look(node)
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        now, smoother = self._now(), self._of.smoother
        for node in [node for node in self.told if smoother.is_silent(node, now)]:
            self._drop(node)

    def _is_due(self, node: str) -> bool:
        return self._now() - self._told_at.get(node, -1e9) >= self._settings.least_s

    def _look(self, node: str) -> None:
        seen = self._of.smoother.node(node, self._now())
        if seen is None:
            return
        told, former = self._of.hinting.build(seen, self._of.pods.on(node)), self.told.get(node)
        old = self._now() - self._told_at.get(node, -1e9) >= self._settings.again_s
        if old or is_significant(former, told, self._steps):
            self.told[node], self._told_at[node] = told, self._now()
            self.count += 1
            self._outbox.publish_state(HINTS_BUCKET, token(node), HINT_TOLD, encode_hints(told))

    def _drop(self, node: str) -> None:
        del self.told[node], self._told_at[node]
        self._of.hinting.forget(node)
        self._outbox.forget_state(HINTS_BUCKET, token(node))
