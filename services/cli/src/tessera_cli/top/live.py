"""`tessera top` on a terminal: draws a picture a second, and after each key.

rich.Live puts the lines on the alternate screen; textual would bring a second event loop and 5 MB
for a picture that is one list of lines (docs/top.md).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rich.console import Group
from rich.live import Live

from tessera_cli.screen import Screen
from tessera_cli.top.frame import TopSnapshot, frame, nearby, row_count
from tessera_cli.top.keys import pressed
from tessera_cli.top.snapshot import glyphs_of
from tessera_cli.top.view import TopView, on_key

TICK_S: Final = 1.0
"""Seconds between two pictures, where no key is pressed."""


class VisibleNodes:
    """Which nodes are on the screen: what comes of them counts first."""

    nodes: frozenset[str] = frozenset()


async def draw(
    screen: Screen, view: TopView, take: Callable[[TopView], TopSnapshot], visible: VisibleNodes
) -> None:
    """Draw until somebody quits."""
    glyphs, found = glyphs_of(screen), take(view)
    with (
        pressed(sys.stdin.fileno()) as keys,
        Live(console=screen, screen=True, auto_refresh=False) as live,
    ):
        while True:
            width, height = screen.size
            lines = frame(found, view, (width, height), glyphs)
            live.update(Group(*lines), refresh=True)
            visible.nodes = nearby(found, view, height)
            for key in await _pressed(keys):
                after = on_key(view, key, row_count(found, view, width), max(height // 2, 1))
                if after is None:
                    return
                view = after
            found = take(view)


async def _pressed(keys: asyncio.Queue[str]) -> list[str]:
    """The keys that were pressed since the last picture; none after a tick."""
    found: list[str] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(TICK_S):
            found.append(await keys.get())
    while not keys.empty():
        found.append(keys.get_nowait())
    return found
