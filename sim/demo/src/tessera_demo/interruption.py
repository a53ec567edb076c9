"""How the demo ends when somebody outside wants it to: Ctrl-C, a signal, a terminal that is closed.

Whatever it is, everything that was started ends and the folder is removed. While the demo stays
because it was asked to, such a signal is the way to end it, and no failure.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """Somebody wants the demo to end in the middle."""

    def __init__(self, number: int) -> None:
        """By this signal."""
        super().__init__(signal.Signals(number).name)
        self.number = number


class Ending:
    """The wish that the demo ends."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """Nobody wishes it yet."""
        self.number = 0
        self._say = say
        self._notified = asyncio.Event()
        self._task = asyncio.current_task()
        self._staying = False

    async def wished(self) -> None:
        """Wait until somebody wishes it, which is then as it should be."""
        self._staying = True
        try:
            await self._notified.wait()
        finally:
            self._staying = False

    def request(self, number: int) -> None:
        """By this signal. A second one changes nothing: what was started is being ended."""
        if self.number:
            self._say("everything is being ended already: this takes up to half a minute")
            return
        self.number = number
        self._notified.set()
        if not self._staying and self._task is not None:
            self._task.cancel()


@contextmanager
def endings(say: Callable[[str], None]) -> Generator[Ending]:
    """Take such signals for wishes: a shell that starts jobs in the background ignores some of them
    and hands that down. Raises Interrupted where one came in the middle."""
    loop = asyncio.get_running_loop()
    ending = Ending(say)
    for number in _SIGNALS:
        loop.add_signal_handler(number, ending.request, number)
    try:
        yield ending
    except asyncio.CancelledError:
        if not ending.number:
            raise
        raise Interrupted(ending.number) from None
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
