"""A card as a bar drawn to scale. What a cell says is in its character; colour only repeats it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from rich.text import Text

from tessera_core.occupancy.rows import CardRow, ShareRow

USED, GRANTED, FREE, BROKEN = "cyan", "blue", "bright_black", "red"
MOST_SHARES: Final = 8
"""Shares of a card whose use of cores is drawn."""


class Glyphs(Struct, frozen=True):
    """The characters of bars."""

    used: str
    granted: str
    free: str
    levels: str
    """How much of its cores a share uses, from nothing to all; the last one is beyond."""
    unknown: str
    broken: str
    line: str


BLOCKS: Final = Glyphs(
    used="█", granted="▓", free="░", levels="▁▂▃▄▅▆▇█", unknown="·", broken="✕", line="─"
)
ASCII: Final = Glyphs(
    used="#", granted="=", free=".", levels="01234567", unknown="?", broken="X", line="-"
)


def memory_bar(row: CardRow, width: int, glyphs: Glyphs) -> Text:
    """The card's memory: a segment for each share, its used part first, then what is free."""
    if not row.published or not row.card.healthy:
        said = f"{glyphs.broken} {'unhealthy' if row.published else 'not published'}"
        return Text(f"{said[:width]:{width}}", style=BROKEN)
    text = Text()
    for cells, share in zip(share_cells(row, width), row.shares, strict=False):
        used = used_cells(share, cells)
        text.append(glyphs.used * used, style=USED)
        text.append(glyphs.granted * (cells - used), style=GRANTED)
    text.append(glyphs.free * (width - len(text.plain)), style=FREE)
    return text


def cores_marks(row: CardRow, glyphs: Glyphs) -> Text:
    """A character for each share: how much of its cores it uses."""
    marks = [_mark(share, glyphs) for share in row.shares[:MOST_SHARES]]
    return Text("".join(marks), style=USED)


def card_mark(row: CardRow, glyphs: Glyphs) -> Text:
    """The whole card in one character: how much of its memory is granted."""
    if row.note or not row.published:
        return Text(glyphs.broken, style=BROKEN)
    return Text(_level(row.memory_bytes / (row.card.memory_bytes or 1), glyphs), style=GRANTED)


def share_cells(row: CardRow, width: int) -> list[int]:
    """Cells of each share, at least one, all of them at most `width`."""
    whole = row.card.memory_bytes or 1
    shares = row.shares[:width]
    wanted = [width if s.exclusive else s.memory_bytes * width / whole for s in shares]
    cells = [max(round(each), 1) for each in wanted]
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    return cells


def used_cells(share: ShareRow, cells: int) -> int:
    """How many of a share's cells its used memory fills."""
    use = share.measured
    if use is None or use.memory_bytes <= 0:
        return 0
    part = use.memory_bytes / (share.memory_bytes or use.memory_bytes)
    return min(max(round(part * cells), 0), cells)


def _mark(share: ShareRow, glyphs: Glyphs) -> str:
    if share.measured is None:
        return glyphs.unknown
    return _level(share.measured.cores_percent / (share.cores_percent or 100), glyphs)


def _level(part: float, glyphs: Glyphs) -> str:
    steps: Sequence[str] = glyphs.levels
    return steps[min(max(round(part * (len(steps) - 1)), 0), len(steps) - 1)]
