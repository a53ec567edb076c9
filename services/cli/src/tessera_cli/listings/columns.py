"""Columns as kubectl aligns them: one word a cell where it can be, three blanks between, never
folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from tessera_cli.screen import Screen
from tessera_cli.text import printable

GAP = "   "


def aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """The rows with each column as wide as its longest cell; the last one ends where it ends."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield GAP.join(cells).rstrip()


def print_columns(to: Screen, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a list with its heads, if they are wanted."""
    cells = [[printable(cell) or "-" for cell in row] for row in rows]
    table = [list(heads), *cells] if to.headers else cells
    for line in aligned(table):
        to.print(Text(line), soft_wrap=True)
