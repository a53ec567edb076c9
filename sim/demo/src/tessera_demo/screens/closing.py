"""The closing screen: all that the demo showed, in at most 45 lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from rich.text import Text

from tessera_cli.text import printable
from tessera_cli.top.bars import Glyphs
from tessera_core.occupancy.rows import NodeRow
from tessera_demo.promises import Promise
from tessera_demo.screens.card_bars import node_lines
from tessera_demo.screens.flow import flow
from tessera_demo.screens.palette import legend
from tessera_demo.screens.pod_table import DemoPod, table
from tessera_demo.screens.waterfall import in_brief, waterfall
from tessera_embedded.collector import Collected

MOST_LINES: Final = 45
MOST_COLUMNS: Final = 150
"""What is wider is hard to read."""
_FAILED_SHOWN: Final = 6


class ClosingFacts(Struct, frozen=True, kw_only=True):
    """What the closing screen shows."""

    promises: Sequence[Promise]
    took_s: float
    nodes: Sequence[NodeRow]
    pods: Sequence[DemoPod]
    traced: str
    """The pod whose trace it is."""
    trace: Sequence[Collected]
    next: Sequence[str]
    """Lines to copy."""


def closing(found: ClosingFacts, width: int, glyphs: Glyphs) -> list[Text]:
    """The lines for a terminal of so many columns. Rows are cut and the trace is a line where all
    of it would take more than 45 lines."""
    lines, width = list[Text](), min(width, MOST_COLUMNS)
    for folded, drawn in ((True, True), (True, False), (False, True), (False, False)):
        lines = list(_lines(found, width, glyphs, folded=folded, drawn=drawn))
        if sum(-(-len(line) // width) or 1 for line in lines) <= MOST_LINES:
            break
    return lines


def check_lines(promises: Sequence[Promise]) -> Iterator[Text]:
    """Every check, those of a kind together."""
    kinds = dict.fromkeys(promise.kind for promise in promises)
    for kind in kinds:
        yield Text(kind, style="bold")
        yield from (_check(promise) for promise in promises if promise.kind == kind)


def _check(promise: Promise) -> Text:
    word, style = ("ok    ", "green") if promise.kept else ("FAILED", "bold red")
    measured = f": {printable(promise.measured)}" if promise.measured else ""
    return Text.assemble((word, style), f" {printable(promise.text)}{measured}")


def _lines(
    found: ClosingFacts, width: int, glyphs: Glyphs, *, folded: bool, drawn: bool
) -> Iterator[Text]:
    yield from _headline(found, width)
    failed = [promise for promise in found.promises if not promise.kept]
    for promise in failed[:_FAILED_SHOWN]:
        yield _cut(_check(promise), width)
    if len(failed) > _FAILED_SHOWN:
        yield Text(f"and {len(failed) - _FAILED_SHOWN} more, which --checks lists", style="red")
    yield Text()
    yield from (_cut(line, width) for line in node_lines(found.nodes, width, glyphs))
    dialects = {d for node in found.nodes for card in node.cards for s in card.shares
                for d in s.dialects}  # fmt: skip
    what = Text(f"letter: used  granted {glyphs.granted}  free {glyphs.free}")
    yield from flow([what, *legend(dialects)], width)
    yield Text()
    yield from table(found.pods, width, folded=folded)
    yield from _trace(found, width, glyphs, drawn=drawn)
    briefs = [promise.brief for promise in found.promises if promise.kept and promise.brief]
    yield from flow([Text(brief) for brief in briefs], width, gap=" · ")
    yield Text()
    first = [Text("Try next:", style="bold"), *map(Text, found.next)]
    yield from flow(first, width, gap="   ", cut=False)  # a terminal folds them: they are copied


def _headline(found: ClosingFacts, width: int) -> Iterator[Text]:
    passed, count = sum(p.kept for p in found.promises), len(found.promises)
    style = "bold green" if passed == count else "bold red"
    head = Text.assemble(
        ("TESSERA demo  ", "bold"),
        (f"{passed} of {count} checks passed in {found.took_s:.0f} s", style),
    )  # fmt: skip
    cards = sum(len(node.cards) for node in found.nodes)
    spoken = {d for pod in found.pods for d in pod.dialects}
    stage = (
        f"{len(spoken)} dialects, {len(found.nodes)} nodes, {cards} simulated cards, real services"
    )
    return iter(flow([head, Text(stage, style="bright_black")], width, gap="   "))


def _trace(found: ClosingFacts, width: int, glyphs: Glyphs, *, drawn: bool) -> Iterator[Text]:
    if not found.trace:
        return
    if drawn:
        head = f"trace of {found.traced}, from admission to its first use of a card"
        yield _cut(Text(head, style="bold"), width)
        bar = glyphs.used
        yield from (_cut(line, width) for line in waterfall(found.trace, width, bar=bar))
    else:
        brief = f"trace of {found.traced} (ms): {in_brief(found.trace)}"
        yield from map(Text, textwrap.wrap(brief, width, subsequent_indent="  "))


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line
