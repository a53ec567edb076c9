"""Calls that nobody waits for: each is made until it is done, once at a time, with back-off.

An errand answers True when it is done. What the world refuses for good is told and dropped; what
may go away by itself is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tessera_runtime import logs
from tessera_runtime.errors import ApiRefused, Transient

_log = logs.named("tessera.scheduler.errands")

Errand = Callable[[], Awaitable[bool]]


class RetryQueue:
    """What is to be done. `run` does it."""

    def __init__(self, *, at_once: int, first_s: float, most_s: float) -> None:
        """At most so many calls at a time; the second attempt comes after `first_s` seconds, each
        further one after twice the time, up to `most_s`."""
        self._first_s = first_s
        self._most_s = most_s
        self._doors = asyncio.Semaphore(at_once)
        self._asked: dict[tuple[str, str], Errand] = {}
        self._under_way: set[tuple[str, str]] = set()
        self._something = asyncio.Event()

    @property
    def open(self) -> int:
        """Errands that are not done yet."""
        return len(self._asked) + len(self._under_way)

    def add(self, kind: str, about: str, errand: Errand) -> None:
        """Do it soon; nothing when the same is under way."""
        key = (kind, about)
        if key not in self._under_way:
            self._asked[key] = errand
            self._something.set()

    async def run(self) -> None:
        """Do what was and will be asked for."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._something.wait()
                self._something.clear()
                while self._asked:
                    key, errand = self._asked.popitem()
                    self._under_way.add(key)
                    group.create_task(self._do(key, errand), name=f"{key[0]} {key[1]}")

    async def _do(self, key: tuple[str, str], errand: Errand) -> None:
        try:
            wait_s = self._first_s
            while not await self._tried(key, errand):
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, self._most_s)
        finally:
            self._under_way.discard(key)

    async def _tried(self, key: tuple[str, str], errand: Errand) -> bool:
        async with self._doors:
            try:
                return await errand()
            except Transient as e:
                _log.info("put off", errand=key[0], about=key[1], why=str(e))
                return False
            except ApiRefused as e:
                _log.warning("given up", errand=key[0], about=key[1], why=str(e))
                return True
