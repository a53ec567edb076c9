"""Standard output as people see it: as wide as it is, in columns, with or without their heads."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Container, Iterable, Sequence
from typing import IO, Final, TextIO, cast

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tessera_cli.text import printable

PIPED: Final = 200
_BLANKS: Final = re.compile(r"[ \t]+(?=\n)")


class Screen(Console):
    """A terminal, or what stands in for one."""

    headers = True

    def on_broken_pipe(self) -> None:
        """Leave the exit status to the caller of the command."""
        raise BrokenPipeError

    def grid(self, *heads: str, unbroken: Container[str] = ()) -> Table:
        """A table with these heads, if they are wanted; columns of `unbroken` are never folded."""
        lines = box.SIMPLE_HEAD if self.headers else None
        table = Table(
            box=lines, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold",
            show_header=self.headers,
        )  # fmt: skip
        for head in heads:
            whole = head in unbroken
            table.add_column(head, no_wrap=whole, overflow="ellipsis" if whole else "fold")
        return table

    def print_rows(
        self,
        heads: Sequence[str],
        rows: Iterable[Iterable[Text]],
        notes: Iterable[tuple[str, str]],
        *,
        unbroken: Container[str],
    ) -> None:
        """Print a table, and below it what is to be known of its rows: a name and a sentence."""
        table = self.grid(*heads, unbroken=unbroken)
        for row in rows:
            table.add_row(*row)
        self.print(table)
        for name, note in notes:
            self.print(Text(printable(f"{name}: {note}")))


class _Trimmed:
    """Standard output without the blanks that fill lines up to the width of a terminal."""

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self.encoding = to.encoding
        self.fileno = to.fileno
        self.flush = to.flush
        self.isatty = to.isatty

    def write(self, text: str) -> int:
        """Rich writes whole lines."""
        self._to.write(_BLANKS.sub("", text))
        return len(text)


def console(*, sized: bool, headers: bool = True) -> Screen:
    """Standard output. Without a terminal, or COLUMNS to say its width, (`sized` false) lines are
    folded late, for the sake of grep."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    wide = None if sized else PIPED
    to = None if sys.stdout.isatty() else cast("IO[str]", _Trimmed(sys.stdout))
    screen = Screen(width=wide, highlight=False, emoji=False, markup=False, file=to)
    screen.headers = headers
    return screen
