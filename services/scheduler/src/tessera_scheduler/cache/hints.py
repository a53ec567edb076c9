"""The rebalancer's hints about cards' use, for the orders that respond to them.

Only the order of places that fit is affected, and, where that is switched on, what is lent of
memory that owners leave. A hint counts for a while after it was published; then, or when none ever
came, pods are placed as if there were no rebalancer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Final, NoReturn

import msgspec
from msgspec import Meta, Struct

from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.scoring import pressure
from tessera_runtime import logs
from tessera_runtime.bus.api import Bus, Message
from tessera_runtime.bus.latest_by_source import LatestBySource
from tessera_runtime.kube import timestamps
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.messages.hints import NodeHints, decode_hints
from tessera_schema.subjects import HINTS_BUCKET

_log: Final = logs.named("tessera.scheduler.hints")
MOST_NODES: Final = 16_384
"""Nodes whose hints are remembered. They may come before their nodes do, so the names are those
that the rebalancer publishes; a message with one more counts nothing until others are too old."""
MOST_BYTES: Final = 1 << 20
"""Bytes of a message: what NATS carries in one unless it is configured otherwise."""


class HintSettings(Struct, frozen=True, kw_only=True):
    """How the rebalancer's hints are used."""

    enabled: bool = True
    """Respond to them. Off: pods are placed as if there were no rebalancer."""
    stale_s: Annotated[float, Meta(gt=0)] = 90.0
    """Seconds for which a hint counts: the rebalancer repeats each every 30, so two may be lost."""
    lend_memory: bool = False
    """Lend best-effort pods the memory that others were granted and leave. Agents must take it back
    (component `memory-reclaim`): of the others' cards nothing is lent."""
    look_s: Annotated[float, Meta(gt=0)] = 1.0
    """Seconds between two checks for hints that are too old."""


class HintCache:
    """Keeps the fleet's pressure and prices in step with the hints."""

    def __init__(
        self,
        ledger: Ledger,
        settings: HintSettings,
        clock: MonotonicClock,
        metrics: SchedulerMetrics,
        freed: Callable[[], object],
    ) -> None:
        """`freed` is called where more memory may be lent."""
        self._ledger = ledger
        self._freed = freed
        self._settings = settings
        self._clock = clock
        self._undecodable = metrics.undecodable.labels("hints")
        self._latest: LatestBySource[str] = LatestBySource()
        """Node -> its sources. What they say is in the fleet."""
        self._published: dict[str, float] = {}
        """Node -> when the hint that counts was published."""
        metrics.registry.gauge("hinted_nodes", "Nodes with hints that count").set_function(
            lambda: float(len(self._published))
        )

    @property
    def remembered(self) -> int:
        """Nodes of which something is known."""
        return len(self._latest.keys())

    async def run(self, bus: Bus) -> NoReturn:
        """Receive hints and drop old ones, until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._settings.enabled:
                group.create_task(self._listen(bus), name="hint listener")
            while True:
                await asyncio.sleep(self._settings.look_s)
                self.expire(self._clock.time())

    def receive(self, message: Message, now: float) -> None:
        """One message; repeats, and what is too old, change nothing."""
        try:
            hints = _decoded(message.data)
        except msgspec.DecodeError as e:
            self._undecodable.inc()
            _log.warning("hints not readable", subject=message.subject, why=str(e))
            return
        # what is no time is too old
        at = min(timestamps.parse_time(message.envelope.time) or 0.0, now)
        if now - at > self._settings.stale_s:
            return
        if hints.node not in self._published and len(self._published) >= MOST_NODES:
            self._undecodable.inc()
            _log.warning("hints of too many nodes", most=MOST_NODES)
            return
        source = message.envelope.source
        if not self._latest.offer(hints.node, message.envelope, source):
            return
        if self._latest.get(hints.node) == source:
            self._published[hints.node] = at
            pressure.set_pressure(self._ledger.fleet, hints)
            self._lend(hints)

    def expire(self, now: float) -> None:
        """Drop what is too old."""
        last = now - self._settings.stale_s
        for node in [node for node, at in self._published.items() if at < last]:
            del self._published[node]
            self._latest.forget(node)
            pressure.clear(self._ledger.fleet, node)
            self._ledger.set_memory_needs(node, {})

    def _lend(self, hints: NodeHints) -> None:
        if not self._settings.lend_memory:
            return
        needs = {
            card.card: {owner.uid: owner.memory_bytes for owner in card.needs}
            for card in hints.cards
            if card.needs is not None
        }
        if self._ledger.set_memory_needs(hints.node, needs):
            self._freed()

    async def _listen(self, bus: Bus) -> NoReturn:
        async with bus.watch(HINTS_BUCKET) as items:
            async for item in items:
                if isinstance(item, Message):
                    self.receive(item, self._clock.time())
        raise AssertionError("watches never end")


def _decoded(data: bytes) -> NodeHints:
    if len(data) > MOST_BYTES:
        raise msgspec.DecodeError(f"{len(data)} bytes: at most {MOST_BYTES} are read")
    return decode_hints(data)
