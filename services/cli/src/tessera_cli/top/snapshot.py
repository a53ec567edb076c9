"""One moment of the cluster: for the screen, and printed once as text or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from rich.text import Text

from tessera_cli.cluster_state import documents
from tessera_cli.screen import Screen
from tessera_cli.top.bars import ASCII, BLOCKS, Glyphs
from tessera_cli.top.frame import TopSnapshot, summary
from tessera_cli.top.lines import (
    WIDE,
    Columns,
    card_line,
    cards_heading,
    fitted,
    heading,
    node_line,
    share_line,
    waiting_line,
)
from tessera_cli.top.view import Place, TopView
from tessera_core.occupancy.rows import CardTotals, NodeRow, ShareRow, WaitingRow
from tessera_core.occupancy.selection import ordered, selected


class TopRows(Protocol):
    """Has the rows of a cluster, or of one machine."""

    def rows(self) -> Sequence[NodeRow]:
        """The nodes with cards."""
        ...

    def totals(self) -> CardTotals:
        """All of them added up."""
        ...

    def waiting(self) -> Sequence[WaitingRow]:
        """Those that wait, the oldest first."""
        ...


def take(
    occupancy: TopRows, view: TopView, *, name: str, now_s: float, status: str = "",
    holders: str = "pods",
) -> TopSnapshot:  # fmt: skip
    """The rows of this moment."""
    rows = occupancy.rows()
    nodes = ordered(selected(rows, view.wanted), view.order)
    cards = [card for node in nodes for card in node.cards]
    pods: list[ShareRow] = []
    if view.place is Place.PODS:
        pods = [share for card in cards for share in card.shares if view.wanted.share(share)]
    return TopSnapshot(
        name=name, now_s=now_s, clock=_clock(now_s), nodes=nodes, totals=occupancy.totals(),
        waiting=[row for row in occupancy.waiting() if view.wanted.waits(row)], status=status,
        cards=cards, pods=pods, holders=holders,
    )  # fmt: skip


def glyphs_of(screen: Screen) -> Glyphs:
    """The characters that the terminal can show."""
    return ASCII if screen.options.ascii_only else BLOCKS


def show(screen: Screen, found: TopSnapshot, *, shares: bool) -> None:
    """Print the whole of it once; with `shares` every pod beneath its card."""
    for line in _lines(found, screen, shares=shares):
        line.truncate(screen.width, overflow="ellipsis")
        screen.print(line, no_wrap=True)


def document(found: TopSnapshot) -> dict[str, Any]:
    """All of it, with units in the names."""
    return {
        "cluster": found.name,
        "at": datetime.fromtimestamp(found.now_s, UTC).isoformat(timespec="seconds"),
        "status": found.status,
        "totals": found.totals,
        "nodes": [documents.node(node) for node in found.nodes],
        "waiting": [documents.waiting(row) for row in found.waiting],
    }


def _lines(found: TopSnapshot, screen: Screen, *, shares: bool) -> Iterator[Text]:
    width, glyphs = screen.width, glyphs_of(screen)
    yield Text(summary(found, width), style="bold")
    if found.status:
        yield Text(found.status, style="yellow")
    columns = fitted(found.cards, width, glyphs)
    if found.nodes and screen.headers:
        yield cards_heading(columns)
    for node in found.nodes:
        yield from _node(node, columns, shares=shares)
    if not found.nodes:
        yield Text("no card is published, or none matches the filter")
    if found.waiting:
        yield heading(f"waiting {len(found.waiting)}", min(width, WIDE), glyphs)
        yield from (waiting_line(row, found.now_s, width) for row in found.waiting)


def _node(node: NodeRow, columns: Columns, *, shares: bool) -> Iterator[Text]:
    if columns.narrow:
        yield node_line(node, columns)
    for i, card in enumerate(node.cards):
        if not columns.narrow:
            yield card_line(card, columns, named=i == 0)
        if shares:
            yield from (share_line(share, columns.width) for share in card.shares)


def _clock(now_s: float) -> str:
    return datetime.fromtimestamp(now_s, UTC).astimezone().strftime("%H:%M:%S")
