"""Hints of nodes, published when they say something new, and again every `again_s` seconds.

Nothing more is published of a node that fell silent: its last hints grow old where they are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from tessera_core.usage.hints import HintBuilder, SignificantChanges, is_significant
from tessera_rebalancer.pods import GrantedPods
from tessera_rebalancer.settings import HintPublisherSettings
from tessera_rebalancer.usage_listener import UsageConsumer
from tessera_runtime.bus.outbox import Outbox
from tessera_schema.messages.event_catalogue import HINT_PUBLISHED
from tessera_schema.messages.hints import NodeHints, encode_hints
from tessera_schema.subjects import HINTS_BUCKET, token

_FORGET_EVERY: Final = 60
"""Looks between two times that nodes which are gone are forgotten."""
_AT_ONCE: Final = 50
"""Nodes handled before other tasks on the loop run: some milliseconds."""


class HintPublisher:
    """Builds the hints of each node, and publishes them as states of the bus."""

    def __init__(
        self,
        *,
        usage: UsageConsumer,
        builder: HintBuilder,
        pods: GrantedPods,
        outbox: Outbox,
        settings: HintPublisherSettings,
        steps: SignificantChanges,
        now: Callable[[], float],
    ) -> None:
        """`now` is the loop's time."""
        self.published: dict[str, NodeHints] = {}
        """The newest of each node that is measured."""
        self.count = 0
        """Messages."""
        self._usage = usage
        self._builder = builder
        self._pods = pods
        self._outbox = outbox
        self._settings = settings
        self._steps = steps
        self._now = now
        self._published_at: dict[str, float] = {}

    async def run(self) -> NoReturn:
        """Publish, for ever."""
        while True:
            for _ in range(_FORGET_EVERY):
                await asyncio.sleep(self._settings.look_s)
                await self.publish_due()
            self._usage.forget()

    async def publish_due(self) -> None:
        """Publish the hints of every node of which something new was measured, or on which pods
        came or went: these count at once."""
        fresh = sorted(self._usage.fresh | self._pods.changed)
        for number, node in enumerate(fresh, 1):
            if self._is_due(node):
                self._usage.fresh.discard(node)
                self._pods.changed.discard(node)
                self._publish(node)
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        now, smoother = self._now(), self._usage.smoother
        for node in [node for node in self.published if smoother.is_silent(node, now)]:
            self._drop(node)

    def _age_s(self, node: str) -> float:
        return self._now() - self._published_at.get(node, float("-inf"))

    def _is_due(self, node: str) -> bool:
        return self._age_s(node) >= self._settings.least_s

    def _publish(self, node: str) -> None:
        smoothed = self._usage.smoother.node(node, self._now())
        if smoothed is None:
            return
        hints, former = self._builder.build(smoothed, self._pods.on(node)), self.published.get(node)
        old = self._age_s(node) >= self._settings.again_s
        if old or is_significant(former, hints, self._steps):
            self.published[node], self._published_at[node] = hints, self._now()
            self.count += 1
            self._outbox.publish_encoded_state(
                HINTS_BUCKET, token(node), HINT_PUBLISHED, hints, encode_hints
            )

    def _drop(self, node: str) -> None:
        del self.published[node], self._published_at[node]
        self._builder.forget(node)
        self._outbox.forget_state(HINTS_BUCKET, token(node))
