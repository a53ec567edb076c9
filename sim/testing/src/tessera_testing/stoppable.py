"""Virtual time, and processes that can be stopped, go on or be killed as by a signal, in one loop.

    loop = StoppableLoop()
    process = Process(loop)
    task = loop.create_task(work(), context=process.context.copy())
    process.stop()      # SIGSTOP: nothing of it runs, timers that fire wait
    process.go_on()     # SIGCONT: all that waited runs, in order, and the time is what it is

A process is whatever runs in its context: tasks made there, their timers, their callbacks. Time
passes only when there is nothing to do. There is no I/O: a loop on which nothing can ever happen
any more says so.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVarTuple

Args = TypeVarTuple("Args")


class NothingLeft(Exception):
    """Somebody waits, and nothing will ever happen."""


class _Skipping(selectors.SelectSelector):
    """Waits by moving the time on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Nothing ever comes from outside."""
        if timeout is None:
            raise NothingLeft("the loop waits, and no timer is set")
        self.now += max(timeout, 0.0)
        return []


class StoppableLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, which knows what belongs to a process that is stopped."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._skipping.now

    def call_soon(
        self,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """See `asyncio`."""
        within = context if context is not None else copy_context()
        process = within.get(_process)
        if process is None:
            return super().call_soon(callback, *args, context=within)
        turn = _Turn(process, callback, args, within)
        turn.handle = super().call_soon(turn, context=within)
        return turn.handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See `asyncio`."""
        within = context if context is not None else copy_context()
        process = within.get(_process)
        if process is None:
            return super().call_at(when, callback, *args, context=within)
        turn = _Turn(process, callback, args, within)
        turn.handle = timer = super().call_at(when, turn, context=within)
        return timer


class StoppableProcess:
    """What can be stopped as a whole."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """It runs, and has nothing to do."""
        self.stopped = False
        self.context = copy_context()
        """Copy it for each task that belongs to the process."""
        self._loop = loop
        self._waiting: list[_Turn] = []
        self.context.run(_process.set, self)

    def stop(self) -> None:
        """Nothing of it runs from now on; what is running finishes its turn."""
        self.stopped = True

    def go_on(self) -> None:
        """All that should have run meanwhile runs now, in the order in which it was due."""
        self.stopped = False
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            self._loop.call_soon(turn.late, context=turn.context)

    def keep(self, turn: _Turn) -> None:
        """For `go_on`."""
        self._waiting.append(turn)


_process: ContextVar[StoppableProcess | None] = ContextVar("process", default=None)


class _Turn:
    """A callback that waits while its process is stopped."""

    def __init__(
        self, process: StoppableProcess, callback: Callable[..., object], args: tuple[Any, ...],
        context: Context,
    ) -> None:  # fmt: skip
        self._process = process
        self._callback = callback
        self._args = args
        self.context = context
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if self._process.stopped:
            self._process.keep(self)
        else:
            self._callback(*self._args)

    def late(self) -> None:
        """Run, unless somebody else's late turn has called it off."""
        if self.handle is None or not self.handle.cancelled():
            self._callback(*self._args)
