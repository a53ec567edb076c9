"""What people who read logs, and programs that read JSON, get of a play."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from tessera_cli import screen
from tessera_cli.text import print_notice
from tessera_cli.top.bars import BLOCKS
from tessera_cli.top.snapshot import glyphs_of
from tessera_demo import report
from tessera_demo.progress import Progress
from tessera_demo.run import DemoOutcome
from tessera_demo.screens.closing import check_lines, closing
from tessera_demo.screens.picture import picture
from tessera_demo.screens.svg import as_svg

_DRAWN: Final = (140, 42)
"""Columns and lines of pictures."""


class LogAudience:
    """A line on standard error for each step, then the closing screen."""

    def __init__(self, to: screen.Screen, *, checks: bool, pictures: Path | None) -> None:
        """On this screen; `checks`: every check after it; `pictures`: a folder for SVG files."""
        self._to = to
        self._checks = checks
        self._pictures = pictures

    def say(self, text: str) -> None:
        """See `Audience.say`."""
        print_notice(text)

    @asynccontextmanager
    async def watching(self, progress: Progress) -> AsyncGenerator[None]:
        """See `Audience.watching`."""
        del progress
        yield

    def answer(self, outcome: DemoOutcome) -> None:
        """See `Audience.answer`."""
        facts = report.closing_facts(outcome)
        lines = closing(facts, self._to.width, glyphs_of(self._to))
        for line in (*lines, *(check_lines(outcome.promises) if self._checks else ())):
            self._to.print(line, soft_wrap=True)
        if self._pictures is not None:
            draw(self._pictures, outcome)


def draw(folder: Path, outcome: DemoOutcome) -> None:
    """Write the picture of the end of the play, and the closing screen, as SVG. Raises OSError."""
    width, _ = _DRAWN
    folder.mkdir(parents=True, exist_ok=True)
    playing = picture(report.moment(outcome.progress), _DRAWN, BLOCKS)
    (folder / "demo-playing.svg").write_text(as_svg(playing, width, "make demo"))
    ended = closing(report.closing_facts(outcome), width, BLOCKS)
    (folder / "demo-closing.svg").write_text(as_svg(ended, width, "make demo"))


class JsonAudience(LogAudience):
    """A line on standard error for each step, JSON on standard output."""

    def answer(self, outcome: DemoOutcome) -> None:
        """See `Audience.answer`."""
        lines = report.next_lines(outcome) if outcome.stays else []  # what they name is there
        sys.stdout.buffer.write(msgspec.json.encode(report.document(outcome)) + b"\n")
        sys.stdout.buffer.flush()
        for promise in outcome.promises:
            if not promise.kept:
                print_notice(f"BROKEN {promise.text}: {promise.measured}")
        for line in lines:
            print_notice(f"  {line}")
