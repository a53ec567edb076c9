"""What the rebalancer says about cards' use, for the orders that heed it.

Only the order of places that fit is touched. A hint counts for a while, by when it was told; then,
or when none ever came, pods are placed as if there were no rebalancer.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Final, NoReturn

import msgspec
from msgspec import Meta, Struct

from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.scoring import pressure
from tessera_runtime import logs
from tessera_runtime.bus.api import Bus, Message
from tessera_runtime.bus.latest_by_source import LatestBySource
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.messages.hints import NodeHints, decode_hints
from tessera_schema.subjects import HINTS_BUCKET

_log: Final = logs.named("tessera.scheduler.hints")
MOST_NODES: Final = 16_384
"""Nodes of which hints are kept. They may come before their nodes do, so the names are those that
the rebalancer publishes; a message with one more counts nothing until others are too old."""
MOST_BYTES: Final = 1 << 20
"""Of a message: what NATS carries in one unless it is configured otherwise."""


class HintSettings(Struct, frozen=True, kw_only=True):
    """Hints of the rebalancer."""

    enabled: bool = True
    """Heed them. Off: pods are placed as if there were no rebalancer."""
    stale_s: Annotated[float, Meta(gt=0)] = 90.0
    """Seconds for which a hint counts: the rebalancer repeats each every 30, so two may be lost."""
    look_s: Annotated[float, Meta(gt=0)] = 1.0
    """Seconds between two looks for hints that are too old."""


class HintCache:
    """Keeps the fleet's pressure in step with them."""

    def __init__(
        self,
        fleet: Fleet,
        settings: HintSettings,
        steady: MonotonicClock,
        measures: SchedulerMetrics,
    ) -> None:
        """No hint is known."""
        self._fleet = fleet
        self._settings = settings
        self._steady = steady
        self._undecodable = measures.undecodable.labels("hints")
        self._latest: LatestBySource[NodeHints] = LatestBySource()
        self._told: dict[str, float] = {}
        """Node -> when the hint that counts was told."""
        measures.registry.gauge("hinted_nodes", "Nodes with hints that count").set_function(
            lambda: float(len(self._told))
        )

    @property
    def remembered(self) -> int:
        """Nodes of which something is known."""
        return len(self._latest.keys())

    async def run(self, bus: Bus) -> NoReturn:
        """Listen, for ever."""
        async with asyncio.TaskGroup() as group:
            if self._settings.enabled:
                group.create_task(self._listen(bus), name="hint listener")
            while True:
                await asyncio.sleep(self._settings.look_s)
                self.expire(self._steady.time())

    def receive(self, news: Message, now: float) -> None:
        """One message; repeats, and what is too old, change nothing."""
        try:
            told = _decoded(news.data)
        except msgspec.DecodeError as e:
            self._undecodable.inc()
            _log.warning("hints not readable", subject=news.subject, why=str(e))
            return
        at = min(_unix(news.envelope.time), now)
        if now - at > self._settings.stale_s:
            return
        if told.node not in self._told and len(self._told) >= MOST_NODES:
            self._undecodable.inc()
            _log.warning("hints of too many nodes", most=MOST_NODES)
            return
        if not self._latest.offer(told.node, news.envelope, told):
            return
        if self._latest.get(told.node) is told:
            self._told[told.node] = at
            pressure.set_pressure(self._fleet, told)

    def expire(self, now: float) -> None:
        """Let go of what is too old."""
        last = now - self._settings.stale_s
        for node in [node for node, at in self._told.items() if at < last]:
            del self._told[node]
            self._latest.forget(node)
            self._fleet.set_pressure(node, {})

    async def _listen(self, bus: Bus) -> NoReturn:
        async with bus.watch(HINTS_BUCKET) as told:
            async for item in told:
                if isinstance(item, Message):
                    self.receive(item, self._steady.time())
        raise AssertionError("watches never end")


def _decoded(data: bytes) -> NodeHints:
    if len(data) > MOST_BYTES:
        raise msgspec.DecodeError(f"{len(data)} bytes: at most {MOST_BYTES} are read")
    return decode_hints(data)


def _unix(text: str) -> float:
    """Unix seconds; 0 for what is no time, which is too old."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return 0.0
