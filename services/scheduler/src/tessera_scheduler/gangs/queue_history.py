"""What queues have used in the past, in a ConfigMap, so that a restart does not forget it.

The leader writes it once a minute; a replica that takes over goes on with it, and weights follow
with the next record of what is used. Nothing waits for it:
a text that cannot be read, and an API server that does not answer, cost the history alone.
"""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

import msgspec

from tessera_core.gangs.queue_history import (
    QueueHistory,
    UnknownQueueHistoryVersion,
    decode,
    encode,
)
from tessera_runtime import logs
from tessera_runtime.errors import Permanent, TesseraError, Transient
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.create_or_update import Json, config_map, create_or_update
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.leadership.leader import Leadership

HISTORY: Final = "tessera-queue-history"
ENTRY: Final = "history.json"
EVERY_S: Final = 60.0
"""Seconds between two writes: what a crash may lose. A half-life is a minute at least, mostly a
day."""
_TURN_S: Final = 1.0
_RETRY_S: Final = 10.0
"""Seconds after which an API server that did not answer is called again."""

_log: Final = logs.named("tessera.scheduler.queuehistory")


class QueueHistoryStore:
    """Reads the history when this replica begins to lead, and writes it while it does."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        history: QueueHistory,
        leadership: Leadership,
        clock: MonotonicClock,
    ) -> None:
        """The ConfigMap is in `namespace`."""
        self._kube = kube
        self._place = config_map(namespace, HISTORY)
        self._history = history
        self._leadership = leadership
        self._clock = clock
        self._read = self._writable = False
        self._next_at = 0.0

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            if not self._leadership.leads:
                self._read, self._next_at = False, 0.0
            elif self._clock.time() >= self._next_at:
                await self._turn()
            await asyncio.sleep(_TURN_S)

    async def _turn(self) -> None:
        try:
            if not self._read:
                await self._restore()
                self._read = True
            if self._writable:
                await self._write()
        except TesseraError as e:
            self._next_at = self._clock.time() + _RETRY_S
            _log.warning("history of queues neither read nor written yet", why=str(e))
            return
        self._next_at = self._clock.time() + EVERY_S

    async def _restore(self) -> None:
        """Go on with what the former leader has written. Raises Transient."""
        self._writable = False
        try:
            there = await create_or_update(self._kube, self._place, lambda _: None)
        except Transient:
            raise
        except Permanent as e:
            _log.warning("history of queues neither read nor written", why=str(e))
            return
        self._writable = True
        text = (there.get("data") or {}).get(ENTRY)
        if text is None:
            return
        try:
            saved = decode(text)
        except UnknownQueueHistoryVersion as e:
            self._writable = False
            _log.warning("history of queues left as it is", why=str(e))
        except (msgspec.DecodeError, TypeError) as e:
            _log.warning("history of queues begins again", why=f"data[{ENTRY}]: {e}")
        else:
            taken = self._history.restore(saved)
            _log.info(
                "history of queues read", at=saved.at, queues=len(saved.used),
                why="" if taken else "this replica's own began before it, and counts",
            )  # fmt: skip

    async def _write(self) -> None:
        saved = self._history.saved()
        if saved is None:
            return
        text = encode(saved)

        def written(there: Json | None) -> Json:
            return {**(there or self._place.object()), "data": {ENTRY: text}}

        await create_or_update(self._kube, self._place, written)
