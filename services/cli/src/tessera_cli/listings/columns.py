"""Columns as kubectl aligns them: one word a cell where it can be, three blanks between, never
folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from tessera_cli.screen import Screen
from tessera_cli.text import printable

GAP = "   "


class GrowingTable:
    """A table that is printed in pieces; a column never becomes narrower."""

    def __init__(self, heads: Sequence[str]) -> None:
        """The heads are printed with the first piece."""
        self._heads: list[Sequence[str]] = [heads]
        self._widths = [0] * len(heads)

    def print_rows(self, to: Screen, rows: Iterable[Sequence[str]]) -> None:
        """Print rows, below the heads if they were not printed yet and are wanted."""
        cells: list[Sequence[str]] = [[printable(cell) or "-" for cell in row] for row in rows]
        table = [*self._heads, *cells] if to.headers else cells
        self._heads = []
        for row in table:
            self._widths = [max(w, len(cell)) for w, cell in zip(self._widths, row, strict=True)]
        for row in table:
            parts = (cell.ljust(w) for cell, w in zip(row, self._widths, strict=True))
            to.print(Text(GAP.join(parts).rstrip()), soft_wrap=True)


def print_columns(to: Screen, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a list with its heads, if they are wanted."""
    GrowingTable(heads).print_rows(to, rows)
