"""People at a terminal: a picture on the alternate screen while the demo plays, as `tessera top`
draws it, and then the closing screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from rich.console import Group
from rich.live import Live

from tessera_cli import screen
from tessera_cli.top.snapshot import glyphs_of
from tessera_demo import report
from tessera_demo.audience import LogAudience
from tessera_demo.progress import Progress
from tessera_demo.screens.picture import picture
from tessera_runtime.background import running_in_background

_TICK_S: Final = 0.5
"""Seconds between two pictures."""


class LiveAudience(LogAudience):
    """Draws twice a second while the demo plays."""

    def __init__(self, to: screen.Screen, *, checks: bool, pictures: Path | None) -> None:
        """See `LogAudience`."""
        super().__init__(to, checks=checks, pictures=pictures)
        self._drawing = False

    def say(self, text: str) -> None:
        """See `Audience.say`. The picture has it while there is one."""
        if not self._drawing:
            super().say(text)

    @asynccontextmanager
    async def watching(self, progress: Progress) -> AsyncGenerator[None]:
        """See `Audience.watching`. A terminal that is closed ends nothing."""
        live = Live(console=self._to, screen=True, auto_refresh=False)
        self._drawing = True
        try:
            with suppress(OSError):
                live.start()
            async with running_in_background(self._draw(live, progress), "picture"):
                yield
        finally:
            self._drawing = False
            with suppress(OSError):
                live.stop()

    async def _draw(self, live: Live, progress: Progress) -> NoReturn:
        glyphs = glyphs_of(self._to)
        while True:
            width, height = self._to.size
            lines = picture(report.moment(progress), (width, height), glyphs)
            with suppress(OSError):
                live.update(Group(*lines), refresh=True)
            await asyncio.sleep(_TICK_S)
