"""Tasks that nobody waits for: each is run until it is done, once at a time, with back-off.

A task answers True when it is done. One that the API server refuses for good is logged and dropped;
one that fails for a transient reason is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from tessera_runtime import logs
from tessera_runtime.errors import ApiRefused, Transient
from tessera_runtime.kube.binding import PodKey

_log = logs.named("tessera.scheduler.retry_queue")

Task = Callable[[], Awaitable[bool]]


class RetryQueue:
    """Tasks by kind and object. `run` works them off."""

    def __init__(self, *, at_once: int, first_s: float, most_s: float) -> None:
        """At most `at_once` attempts run at a time; the second attempt of a task comes after
        `first_s` seconds, each further one after twice the time, up to `most_s`."""
        self._first_s = first_s
        self._most_s = most_s
        self._turns = asyncio.Semaphore(at_once)
        self._waiting: dict[tuple[str, str], Task] = {}
        self._under_way: set[tuple[str, str]] = set()
        self._something = asyncio.Event()

    @property
    def open(self) -> int:
        """Tasks that are not done yet."""
        return len(self._waiting) + len(self._under_way)

    def add(self, kind: str, about: str, task: Task) -> None:
        """Run the task soon; one of the same kind and object that is running already stands for
        it."""
        key = (kind, about)
        if key not in self._under_way:
            self._waiting[key] = task
            self._something.set()

    def adder(
        self, kind: str, call: Callable[[PodKey], Awaitable[bool]]
    ) -> Callable[[PodKey], None]:
        """A function that adds a task of this kind about a pod."""
        return lambda pod: self.add(kind, pod.uid, partial(call, pod))

    async def run(self) -> None:
        """Run tasks, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._something.wait()
                self._something.clear()
                while self._waiting:
                    key = next(iter(self._waiting))  # the one that waits longest
                    task = self._waiting.pop(key)
                    self._under_way.add(key)
                    group.create_task(self._run(key, task), name=f"{key[0]} {key[1]}")

    async def _run(self, key: tuple[str, str], task: Task) -> None:
        try:
            wait_s = self._first_s
            while not await self._attempt(key, task):
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, self._most_s)
        finally:
            self._under_way.discard(key)

    async def _attempt(self, key: tuple[str, str], task: Task) -> bool:
        async with self._turns:
            try:
                return await task()
            except Transient as e:
                _log.info("put off", errand=key[0], about=key[1], why=str(e))
                return False
            except ApiRefused as e:
                _log.warning("given up", errand=key[0], about=key[1], why=str(e))
                return True
