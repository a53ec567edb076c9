"""One thread for a library that may hang: calls go one after the other, with a deadline, and one
that does not come back is reported, never waited for, not even at the process's end.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from tessera_runtime.errors import Transient

T = TypeVar("T")
_Job = Callable[[], None]


class Hanging(Transient):
    """A call has not come back; no other is made until it does."""


class OneThread:
    """Runs calls in its thread. Open it with `one_thread`."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._busy = threading.Event()

    async def call(self, work: Callable[[], T], within_s: float) -> T:
        """What `work` returns or raises. Raises Hanging when it takes longer than `within_s`, or
        when an earlier call has not come back."""
        if self._busy.is_set():
            raise Hanging("an earlier call to the driver has not come back")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: Exception | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]  # set unless error is

        def job() -> None:
            result, error = None, None
            try:
                result = work()
            except Exception as e:  # noqa: BLE001  (the caller gets every error)
                error = e
            self._busy.clear()
            with suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(settle, result, error)

        self._busy.set()
        self._jobs.put(job)
        try:
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError as e:
            raise Hanging(f"the driver did not answer within {within_s:g} s") from e

    def send(self, work: Callable[[], None]) -> None:
        """Run `work` after the calls under way, without waiting for it."""
        self._jobs.put(work)

    def run(self) -> None:
        """Work until `stop`: the thread's own loop."""
        while (job := self._jobs.get()) is not None:
            job()

    def stop(self) -> None:
        """Let the thread end when its call comes back."""
        self._jobs.put(None)


@asynccontextmanager
async def one_thread(name: str) -> AsyncGenerator[OneThread]:
    """A thread that is stopped at the end of the block; one that hangs is left behind."""
    thread = OneThread()
    threading.Thread(target=thread.run, name=name, daemon=True).start()
    try:
        yield thread
    finally:
        thread.stop()
