"""Pieces of text one after the other, in lines of a width."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text


def flow(
    parts: Sequence[Text], width: int, gap: str = "  ", *, cut: bool = True
) -> list[Text]:  # fmt: skip
    """The parts one after the other, in as few lines as they need."""
    lines: list[Text] = []
    for part in parts:
        if lines and len(lines[-1]) + len(gap) + len(part) <= width:
            lines[-1] = Text.assemble(lines[-1], gap, part)
        else:
            lines.append(part.copy())
    if cut:
        for line in lines:
            line.truncate(width, overflow="ellipsis")
    return lines
