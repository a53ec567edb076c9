"""A trace as a waterfall: a line for each span, where it begins and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from tessera_embedded.collector import Collected

_STYLES: Final = {"tessera-scheduler": "cyan", "tessera-agent": "green"}
_NAMES: Final = 14
_TIMES: Final = 20


def waterfall(spans: Sequence[Collected], width: int, *, bar: str) -> list[Text]:
    """The spans, oldest first. Bars have the time from the first span's begin to the last one's
    end; a span that is shorter than a cell has one."""
    first = min((span.start_ns for span in spans), default=0)
    whole = max((span.end_ns for span in spans), default=0) - first
    room = max(width - _NAMES - _TIMES - 2, 8)
    return [_line(span, first, whole, room, bar) for span in spans]


def in_brief(spans: Sequence[Collected]) -> str:
    """All of it in one line: each step with the ms that it takes, and when the last one begins."""
    first = min((span.start_ns for span in spans), default=0)
    steps = [f"{_step(span)} {_ms(span.end_ns - span.start_ns)}" for span in spans[:-1]]
    last = [f"{_step(span)} at {_ms(span.start_ns - first)} ms" for span in spans[-1:]]
    return "  ".join((*steps, *last))


def _line(span: Collected, first: int, whole: int, room: int, bar: str) -> Text:
    begin = round((span.start_ns - first) / (whole or 1) * room)
    cells = max(round((span.end_ns - span.start_ns) / (whole or 1) * room), 1)
    begin = min(begin, room - cells)
    line = Text(f"  {_step(span):{_NAMES}}")
    line.append(" " * begin)
    line.append(bar * cells, style="red" if span.failed else _STYLES.get(span.service, "blue"))
    line.append(" " * (room - begin - cells))
    took, since = _ms(span.end_ns - span.start_ns), _ms(span.start_ns - first)
    line.append(f"{took:>7} ms at {since:>5}" + (" FAILED" if span.failed else ""))
    return line


def _step(span: Collected) -> str:
    return span.name.rpartition(".")[2].replace("_", " ")


def _ms(amount_ns: int) -> str:
    ms = amount_ns / 1e6
    return f"{ms:.1f}" if ms < 10 else f"{ms:.0f}"
