"""Watches from a thread whether the event loop goes on, and says where it stands still if not.

    async with open_watchdog(lambda: blocked.inc()):
        ...

Everything that a service does runs on one loop. Work that does not end there holds up all of it,
the Lease's renewal included, and no metric would show it: the scrape is held up as well. So the log
line is written by a thread, while it lasts.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

from tessera_runtime import logs

log = logs.named("tessera.watchdog")

BLOCKED_S: Final = 2.0
"""A loop that does nothing else for so long is called blocked: forty times what one request may
take, and a fifth of what the Lease survives."""
_LOOKS: Final = 4
"""Looks, and signs of life, in that time."""


@asynccontextmanager
async def open_watchdog(
    blocked: Callable[[], None], after_s: float = BLOCKED_S
) -> AsyncGenerator[None]:
    """Watch the running loop until left. `blocked` is called, in another thread, each time that it
    has stood still for `after_s` seconds."""
    watch = _Watch(blocked, after_s, threading.get_ident())
    thread = threading.Thread(target=watch.run, name="watchdog", daemon=True)
    async with asyncio.TaskGroup() as group:
        living = group.create_task(watch.live(), name="signs of life")
        thread.start()
        try:
            yield
        finally:
            watch.over.set()
            living.cancel()


class _Watch:
    def __init__(self, blocked: Callable[[], None], after_s: float, thread_id: int) -> None:
        self.over = threading.Event()
        self._blocked = blocked
        self._after_s = after_s
        self._thread_id = thread_id
        self._lived_at = time.monotonic()

    async def live(self) -> None:
        """Show that the loop goes on."""
        while True:
            self._lived_at = time.monotonic()
            await asyncio.sleep(self._after_s / _LOOKS)

    def run(self) -> None:
        """Look for these signs; in a thread."""
        logged_at = 0.0
        while not self.over.wait(self._after_s / _LOOKS):
            lived_at = self._lived_at
            blocked_s = time.monotonic() - lived_at
            if blocked_s >= self._after_s and logged_at != lived_at:
                logged_at = lived_at
                frame = sys._current_frames().get(self._thread_id)
                where = traceback.format_stack(frame) if frame is not None else []
                log.alert("event loop blocked", blocked_s=round(blocked_s, 1), where="".join(where))
                self._blocked()
