"""The picture while the demo plays: cards filling up, pods in their own words, the bus's events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from msgspec import Struct
from rich.text import Text

from tessera_cli.text import printable
from tessera_cli.top.bars import Glyphs
from tessera_core.occupancy.rows import NodeRow
from tessera_demo.screens.card_bars import node_lines
from tessera_demo.screens.flow import flow
from tessera_demo.screens.palette import legend
from tessera_demo.screens.pod_table import DemoPod, table

SIDE_BY_SIDE: Final = 130
"""Columns from which the pods stand next to the cards, where not all fits below them."""
_LEFT: Final = 46
_EVENTS: Final = 5


class PlayedMoment(Struct, frozen=True, kw_only=True):
    """What is drawn of a moment of the play."""

    step: str
    """What goes on."""
    elapsed_s: float
    passed: int
    """Checks so far."""
    promised: int
    """Checks that are known so far."""
    console: str
    """Its address; empty = it is not up."""
    expected: Sequence[str]
    """Nodes that are to come."""
    nodes: Sequence[NodeRow]
    pods: Sequence[DemoPod]
    """Those that were created, or refused."""
    events: Sequence[str]


def picture(found: PlayedMoment, size: tuple[int, int], glyphs: Glyphs) -> list[Text]:
    """The lines for a terminal of so many columns and lines; none is longer than it is wide."""
    width, height = size
    top = [_head(found, width), Text(f"> {found.step}", style="bold yellow")]
    if found.console:
        top.append(Text(f"console: {found.console}", style="bright_black"))
    top.append(Text())
    events = _events(found, width, glyphs) if height >= 2 * _EVENTS + len(top) else []
    room = max(height - len(top) - len(events), 0)
    cards = _cards(found, width, glyphs)
    below = max(room - len(cards) - 1, 0)
    if width >= SIDE_BY_SIDE and len(table(found.pods, width, folded=True)) > below:
        right = _pods(found, width - _LEFT - 2, room)
        body = _side_by_side(_cards(found, _LEFT, glyphs), right)
    else:
        body = [*cards, Text(), *_pods(found, width, below)]
    body = body[:room]
    body += [Text()] * (room - len(body))
    lines = [*top, *body, *events][:height]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _head(found: PlayedMoment, width: int) -> Text:
    left = Text.assemble(("TESSERA demo", "bold"), f"  {found.elapsed_s:.0f} s")
    right = Text(f"{found.passed} of {found.promised} checks passed", style="bold green")
    return Text.assemble(left, " " * max(width - len(left) - len(right), 1), right)


def _cards(found: PlayedMoment, width: int, glyphs: Glyphs) -> list[Text]:
    lines = node_lines(found.nodes, width, glyphs)
    there = {node.name for node in found.nodes}
    lines += [
        Text(f"{name} starts", style="bright_black") for name in found.expected if name not in there
    ]
    dialects = {d for node in found.nodes for c in node.cards for s in c.shares for d in s.dialects}
    return [*lines, Text(), *flow(legend(dialects), width)]


def _pods(found: PlayedMoment, width: int, room: int) -> list[Text]:
    if not found.pods:
        return []
    lines = table(found.pods, width, folded=True)
    if len(lines) > room:
        lines = table(found.pods, width, folded=False)
    if len(lines) > room > 1:
        more = len(lines) - room + 1
        lines = [*lines[: room - 1], Text(f"and {more} more", style="bright_black")]
    return lines


def _side_by_side(left: Sequence[Text], right: Sequence[Text]) -> list[Text]:
    lines = []
    for one, other in zip_longest(left, right):
        mine = one if one is not None else Text()
        gap = " " * (_LEFT + 2 - len(mine))
        lines.append(Text.assemble(mine, gap, other if other is not None else ""))
    return lines


def _events(found: PlayedMoment, width: int, glyphs: Glyphs) -> list[Text]:
    title = f"{glyphs.line * 2} on the bus "
    lines = [Text(title + glyphs.line * max(width - len(title), 0), style="bright_black")]
    lines += [Text(printable(line)) for line in found.events]
    return lines + [Text()] * (_EVENTS + 1 - len(lines))
