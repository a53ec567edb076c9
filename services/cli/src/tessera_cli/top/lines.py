"""Lines of the picture: of a card, a share, a pod that waits. Pure: rows in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from rich.text import Text

from tessera_cli.cluster_state.amounts import age, gib, model, percent, requested
from tessera_cli.text import printable
from tessera_cli.top.bars import BLOCKS, Glyphs, card_mark, cores_marks, memory_bar
from tessera_core.occupancy.rows import CardRow, CardTotals, NodeRow, ShareRow, WaitingRow

WIDE: Final = 100
"""Columns from which bars have their text next to them."""
NARROW: Final = 60
"""Below it a node is a line, and a card a character."""
_THROTTLED: Final = 1.0
"""Percent: less is not worth a word."""


class Columns(Struct, frozen=True):
    """Widths of the columns of cards, fitted to what is drawn."""

    width: int
    node: int = 12
    model: int = 8
    bar: int = 23
    glyphs: Glyphs = BLOCKS

    @property
    def narrow(self) -> bool:
        """Whether a node is one line."""
        return self.width < NARROW

    @property
    def wide(self) -> bool:
        """Whether there is room for amounts in words."""
        return self.width >= WIDE


def fitted(cards: Sequence[CardRow], width: int, glyphs: Glyphs) -> Columns:
    """Columns for these cards; those that are drawn, and no others."""
    most = 24 if width >= WIDE else 16
    node = min(max((len(row.node) for row in cards), default=4), most)
    name = min(max((len(model(row.card)) for row in cards), default=4), 14)
    bar = 23 if width >= WIDE else max(width - max(node, 4) - 32, 6)
    return Columns(width, max(node, 4), max(name, 4), bar, glyphs)


def head_line(totals: CardTotals, waiting: Sequence[WaitingRow], now_s: float, name: str) -> str:
    """The cluster in one line; the most important first, for it is cut at its end."""
    measured = totals.nodes_measured > 0
    memory = _part(totals.memory_granted_bytes, totals.memory_bytes)
    used = _part(totals.memory_used_bytes, totals.memory_bytes) if measured else "-"
    cores = _part(totals.cores_granted_percent, totals.cores_percent)
    busy = _part(totals.cores_used_percent, totals.cores_percent) if measured else "-"
    oldest = f" (oldest {age(waiting[0].created, now_s)})" if waiting else ""
    parts = (
        f"TESSERA {name}".rstrip(), f"nodes {totals.nodes}",
        f"cards {totals.cards_healthy}/{totals.cards}",
        f"memory {memory} % granted, {used} % used",
        f"cores {cores} % granted, {busy} % used", f"waiting {len(waiting)}{oldest}",
    )  # fmt: skip
    return "  ".join(parts)


def short_head_line(totals: CardTotals, waiting: Sequence[WaitingRow]) -> str:
    """The same for a narrow terminal."""
    memory = _part(totals.memory_granted_bytes, totals.memory_bytes)
    cores = _part(totals.cores_granted_percent, totals.cores_percent)
    return (
        f"{totals.nodes} nodes  {totals.cards_healthy}/{totals.cards} cards  mem {memory} %  "
        f"cores {cores} %  waiting {len(waiting)}"
    )


def cards_heading(columns: Columns) -> Text:
    """The heads of the columns of `card_line`."""
    glyphs = columns.glyphs
    if columns.narrow:
        return Text("NODE  CARDS by granted memory", style="bold")
    legend = f"used {glyphs.used} granted {glyphs.granted} free {glyphs.free}"
    node = f"{'NODE':{columns.node}}"
    if columns.wide:
        memory = f"MEMORY {legend}".ljust(columns.bar + 1 + 24)
        return Text(
            f"{node}  {'CARD':{columns.model + 3}} {memory} {'CORES':14} SHARES  NOTE", style="bold"
        )
    bar = f"{legend[: columns.bar]:{columns.bar}}"
    return Text(f"{node} {'CARD':4} {bar} {'GiB':>11} {'CORES':>6} N", style="bold")


def card_line(row: CardRow, columns: Columns, *, named: bool) -> Text:
    """One card; its node's name only where `named`."""
    node = printable(row.node if named else "")
    bar = memory_bar(row, columns.bar, columns.glyphs)
    amounts = f"{gib(row.memory_bytes)}/{gib(row.card.memory_bytes)}"
    shares = "1 whole" if row.whole else f"{len(row.shares)}"
    if columns.wide:
        card = f"{row.card.index:>2} {printable(model(row.card))[: columns.model]:{columns.model}}"
        used = f"used {gib(row.used_bytes)}"
        text = Text(f"{_cut(node, columns.node):{columns.node}}  {card} ")
        text.append_text(bar)
        text.append(f" {amounts:>13} {used:<10}{percent(row.cores_percent):>4} % ")
        marks = cores_marks(row, columns.glyphs)
        text.append_text(marks)
        text.append(" " * (9 - len(marks.plain)) + f"{shares:<8}")
        text.append_text(note(row))
        return text
    text = Text(f"{_cut(node, columns.node):{columns.node}} {row.card.index:>4} ")
    text.append_text(bar)
    text.append(f" {amounts:>11} {percent(row.cores_percent):>4} % {len(row.shares)}")
    return text


def node_line(row: NodeRow, columns: Columns) -> Text:
    """A whole node on a narrow terminal."""
    text = Text(f"{_cut(printable(row.name), 20)} ")
    for card in row.cards:
        text.append(f" {card.card.index}")
        text.append_text(card_mark(card, columns.glyphs))
    return text


def note(row: CardRow) -> Text:
    """What is to be known of a card: what is wrong, who lends, who is held back."""
    if row.note:
        return Text(printable(row.note), style="red")
    lent = sum(share.lends_percent for share in row.shares)
    if lent:
        to = next((share.partners for share in row.shares if share.lends_percent), ())
        return Text(printable(f"lends {lent:.0f} % to {_several(to)}"), style="magenta")
    throttled = max(row.shares, key=_throttled, default=None)
    if throttled is not None and _throttled(throttled) >= _THROTTLED:
        said = f"{throttled.pod} throttled {_throttled(throttled):.0f} %"
        return Text(printable(said), style="yellow")
    return Text()


def share_line(row: ShareRow, width: int, *, where: bool = False) -> Text:
    """A pod's part of a card; with the card's node and index where that is not said above."""
    use = row.measured
    used = gib(None if use is None else use.memory_bytes)
    place = f"{row.node}/{row.index}"
    cores = "whole" if row.exclusive else f"{percent(row.cores_percent)} %"
    busy = percent(None if use is None else use.cores_percent)
    name = printable(row.pod)
    if width >= WIDE:
        text = Text(f" {_cut(name, 36):36} ")
        text.append(f"{_cut(place, 22):22} " if where else "")
        text.append(f"{','.join(row.dialects):12} {gib(row.memory_bytes):>6} GiB used {used:>5}  ")
        text.append(f"{cores:>6} used {busy:>3}")
    else:
        text = Text(f" {_cut(name, 20):20} {used:>5}/{gib(row.memory_bytes):<5} ")
        text.append(f"{busy:>3}/{cores.removesuffix(' %'):<5}")
    for words, style in _states(row, short=width < WIDE):
        text.append(f"  {words}", style=style)
    return text


def waiting_line(row: WaitingRow, now_s: float, width: int) -> Text:
    """A pod that waits, and why."""
    name, since = printable(row.pod), age(row.created, now_s)
    said = printable(row.reason).splitlines()[0] if row.reason else "not tried yet"
    if width >= WIDE:
        parts = "; ".join(requested(part) for part in row.parts) or "-"
        text = Text(f" {_cut(name, 36):36} {since:>6}  {','.join(row.dialects):12} {parts}: {said}")
    else:
        text = Text(f" {_cut(name, 20):20} {since:>6}  {said}")
    if row.remedy:
        text.append(f"; {printable(row.remedy)}", style="green")
    return text


def heading(title: str, width: int, glyphs: Glyphs) -> Text:
    """A line with a title in it."""
    line = f" {glyphs.line * 2} {printable(title)} "
    return Text(line + glyphs.line * max(width - len(line) - 1, 0), style="bright_black")


def _states(row: ShareRow, *, short: bool) -> Iterator[tuple[str, str]]:
    partner = "" if short else _several(row.partners)
    if row.best_effort:
        yield "best-effort" + (", lent" if row.lent else ""), "cyan"
    if row.borrows_percent:
        source = f" from {partner}" if partner and row.partners else ""
        yield printable(f"borrows {row.borrows_percent:.0f} %{source}"), "magenta"
    if row.lends_percent:
        to = f" to {partner}" if partner else ""
        yield printable(f"lends {row.lends_percent:.0f} %{to}"), "magenta"
    if _throttled(row) >= _THROTTLED:
        yield f"throttled {_throttled(row):.0f} %", "yellow"
    if row.measured is not None and not row.measured.enforced:
        yield "not enforced", "red"
    if row.phase not in ("Running", ""):
        yield row.phase.lower(), "yellow"


def _throttled(row: ShareRow) -> float:
    return row.measured.throttled_percent if row.measured is not None else 0


def _several(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (names[0] if names else "others") + more


def _part(have: float, of: float) -> str:
    return f"{100 * have / of:.0f}" if of else "-"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
