"""The whole picture, line by line: exactly as many as the terminal has. Only what is drawn is made,
so that a cluster of 5,000 nodes costs as much as one of five."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from rich.text import Text

from tessera_cli.top.bars import Glyphs
from tessera_cli.top.lines import (
    NARROW,
    WIDE,
    card_line,
    cards_heading,
    fitted,
    head_line,
    heading,
    node_line,
    share_line,
    short_head_line,
    waiting_line,
)
from tessera_cli.top.view import Place, TopView
from tessera_core.occupancy.rows import CardRow, CardTotals, NodeRow, ShareRow, WaitingRow

_LEAST_BENEATH: Final = 3
"""Lines: a title and two pods."""
_LEAST_WAITING: Final = 2
"""Lines: a title and a pod."""
_HELP: Final = (
    "c  cards: a bar for each; its shares side by side, of each the used part first",
    "p  {holders} that hold cards", "w  {holders} that wait, and why",
    "up, down, page up, page down, home, end  move; {holders} of the chosen card are beneath",
    "s  sort: name, memory granted, cores granted, used, idle",
    "/  filter: ns=NAME node=NAME dialect=NAME, shell patterns, commas between; or part of a name",
    "escape  no filter", "q  quit", "",
    "CORES: percent granted, then one mark a share for how much of its cores it uses",
    "lends, borrows: estimated from limits in force and measured use", "-: not measured",
)  # fmt: skip


class TopSnapshot(Struct, frozen=True, kw_only=True):
    """The rows of one moment, those that are wanted, in their order."""

    name: str
    """Of the cluster, as the kubeconfig calls it; of one machine, its own."""
    now_s: float
    """Unix time."""
    clock: str
    """The same as the wall clock shows it."""
    nodes: Sequence[NodeRow]
    totals: CardTotals
    """Of the whole cluster, whatever is wanted."""
    waiting: Sequence[WaitingRow]
    status: str = ""
    """Why something is not known; empty = all is well."""
    cards: Sequence[CardRow] = ()
    """All cards of `nodes`, in order."""
    pods: Sequence[ShareRow] = ()
    """All their shares that are wanted, where the view is of pods."""
    holders: str = "pods"
    """What has shares and waits."""


def row_count(found: TopSnapshot, view: TopView, width: int) -> int:
    """How many rows the list of the view has."""
    match view.place:
        case Place.CARDS:
            return len(found.nodes if width < NARROW else found.cards)
        case Place.PODS:
            return len(found.pods)
        case Place.WAITING:
            return len(found.waiting)
        case Place.HELP:
            return len(_HELP)


def nearby(found: TopSnapshot, view: TopView, height: int) -> frozenset[str]:
    """Nodes of the rows that a screen of so many lines may show."""
    rows: Sequence[CardRow | ShareRow] = found.pods if view.place is Place.PODS else found.cards
    return frozenset(row.node for row in rows[max(view.cursor - height, 0) : view.cursor + height])


def frame(
    found: TopSnapshot, view: TopView, size: tuple[int, int], glyphs: Glyphs
) -> list[Text]:  # fmt: skip
    """The lines for a terminal of so many columns and lines; none is longer than it is wide."""
    width, height = size
    top = _head(found, view, width)
    room = max(height - len(top) - 1, 0)
    body = _body(found, view, width, room, glyphs)[:room]
    body += [Text()] * (room - len(body))
    lines = [*top, *body, _foot(found, view, width)][:height]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def summary(found: TopSnapshot, width: int) -> str:
    """The whole cluster in one line."""
    if width < WIDE:
        return short_head_line(found.totals, found.waiting)
    line = head_line(found.totals, found.waiting, found.now_s, found.name)
    return f"{line}  {found.clock}"


def _head(found: TopSnapshot, view: TopView, width: int) -> list[Text]:
    lines = [Text(summary(found, width), style="bold")]
    notes = [found.status] if found.status else []
    silent = found.totals.nodes - found.totals.nodes_measured
    if silent and found.totals.nodes_measured:
        notes.append(f"{silent} of {found.totals.nodes} nodes are not measured")
    if view.wanted:
        notes.append(f"filter: {view.written}")
    if view.order != "name":
        notes.append(f"sorted by {view.order}")
    if notes:
        lines.append(Text("  ".join(notes), style="yellow"))
    return lines


def _foot(found: TopSnapshot, view: TopView, width: int) -> Text:
    if view.typing is not None:
        return Text(f"/{view.typing}_  {view.problem or 'enter: filter  escape: back'}")
    keys = f"[c]ards [p]{found.holders[1:]} [w]aiting  / filter  s sort  ? help  q quit"
    return Text(keys if width >= NARROW else "c p w  / s ? q", style="reverse")


def _body(
    found: TopSnapshot, view: TopView, width: int, room: int, glyphs: Glyphs
) -> list[Text]:  # fmt: skip
    match view.place:
        case Place.CARDS:
            return _cards(found, view, width, room, glyphs)
        case Place.PODS:
            window = _window(view.cursor, len(found.pods), room)
            lines = [
                share_line(found.pods[i], width, where=True) for i in range(*window)
            ] or [Text(f"no {found.holders} hold a card")]  # fmt: skip
            return _marked(lines, view.cursor - window[0])
        case Place.WAITING:
            window = _window(view.cursor, len(found.waiting), room)
            lines = [
                waiting_line(found.waiting[i], found.now_s, width) for i in range(*window)
            ] or [Text(f"no {found.holders} wait for cards")]  # fmt: skip
            return _marked(lines, view.cursor - window[0])
        case Place.HELP:
            return [Text(line.format(holders=found.holders)) for line in _HELP]


def _cards(
    found: TopSnapshot, view: TopView, width: int, room: int, glyphs: Glyphs
) -> list[Text]:  # fmt: skip
    count = row_count(found, view, width)
    if not count:
        return [Text(_nothing(found, view))]
    cursor = min(view.cursor, count - 1)
    waiting = _waiting_part(found, width, room // 5, glyphs)
    beneath = _beneath(found, cursor, width, room // 3, glyphs)
    first, last = _window(cursor, count, max(room - len(waiting) - len(beneath) - 1, 1))
    columns = fitted(found.cards[first:last], width, glyphs)
    lines = [cards_heading(columns)]
    if columns.narrow:
        rows = [node_line(node, columns) for node in found.nodes[first:last]]
    else:
        rows = []
        for i in range(first, last):
            named = i == first or found.cards[i - 1].node != found.cards[i].node
            rows.append(card_line(found.cards[i], columns, named=named))
    return [*lines, *_marked(rows, cursor - first), *beneath, *waiting]


def _nothing(found: TopSnapshot, view: TopView) -> str:
    if view.wanted:
        return "nothing matches the filter (escape: no filter)"
    if found.holders != "pods":
        return "this machine has no cards"
    return "no card is published: see that Tessera's agents run on the nodes that have cards"


def _beneath(
    found: TopSnapshot, cursor: int, width: int, most: int, glyphs: Glyphs
) -> list[Text]:  # fmt: skip
    if most < _LEAST_BENEATH:
        return []
    if width < NARROW:
        node = found.nodes[cursor]
        title, shares = node.name, [share for card in node.cards for share in card.shares]
    else:
        card = found.cards[cursor]
        title, shares = f"{card.node}/{card.card.index}", list(card.shares)
    shown = shares if len(shares) < most else shares[: most - 2]
    lines = [heading(f"{found.holders} on {title}", width, glyphs)]
    lines += [share_line(share, width) for share in shown]
    if len(shown) < len(shares):
        lines.append(Text(f" and {len(shares) - len(shown)} more", style="bright_black"))
    return lines


def _waiting_part(found: TopSnapshot, width: int, most: int, glyphs: Glyphs) -> list[Text]:
    if not found.waiting or most < _LEAST_WAITING:
        return []
    rows = found.waiting[: most - 1]
    title = f"waiting {len(rows)} of {len(found.waiting)}"
    lines = [waiting_line(row, found.now_s, width) for row in rows]
    return [heading(title, width, glyphs), *lines]


def _window(cursor: int, count: int, room: int) -> tuple[int, int]:
    """First row and the one after the last: the cursor stays in the middle where it can."""
    first = min(max(cursor - room // 2, 0), max(count - room, 0))
    return first, min(first + room, count)


def _marked(lines: list[Text], at: int) -> list[Text]:
    if 0 <= at < len(lines):
        lines[at].stylize("reverse")
    return lines
