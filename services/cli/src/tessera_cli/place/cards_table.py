"""Cards and who holds them as people read them: a row per card, a line per pod that holds of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tessera_cli.place.json_output import number
from tessera_cli.place.share_bars import bar
from tessera_cli.screen import Screen
from tessera_cli.text import printable, several
from tessera_core.explain.card_holders import ListedCard, ListedHolder, ListedNode
from tessera_schema.cards import MIB, Card

_HEADS: Final = ("Node", "Card", "Held", "Pods")
_IDLE: Final = Text("nobody", style="dim")
_GAP: Final = "  "
_UNBOUNDED: Final = 10_000
"""Columns; wider than any table of cards, so that its own width is measured."""


class _Row(Struct, frozen=True):
    """A card, or what pods hold of one that is not there; each cell with a line or more."""

    card: Text
    held: Text
    by: Text


class _Columns:
    """Amounts padded so that those of all cards, and of all holders, stand below each other."""

    def __init__(self, nodes: Iterable[ListedNode], to: Console) -> None:
        self._to = to
        held, by = [], []
        for node in nodes:
            held += [_amounts(card) for card in node.cards]
            by += [_by(holder) for holder in _holders(node)]
        self._amounts, self._by = _widths(held), _widths(by)

    def granted(self, card: ListedCard) -> Text:
        """What of a card is held in all."""
        part = card.held.memory_bytes / (card.card.memory_bytes or 1)
        whole = any(holder.exclusive for holder in card.holders)
        cells = _padded(_amounts(card), self._amounts, "rrr")
        return Text.assemble(bar(1.0 if whole else part, self._to), _GAP, cells)

    def by(self, holders: Sequence[ListedHolder]) -> Text:
        """A line for each holder."""
        if not holders:
            return _IDLE
        lines = [_padded(_by(holder), self._by, "llrrl").rstrip() for holder in holders]
        return Text(printable("\n".join(lines)))


def show(to: Screen, nodes: Sequence[ListedNode]) -> None:
    """Print the nodes that have cards, or whose cards pods hold, and how many others there are."""
    shown = [node for node in nodes if node.cards or node.lost]
    if not shown:
        to.print("nothing was read: no card, and no pod that holds any")
        return
    columns = _Columns(shown, to)
    rows = [(node, list(_rows(node, columns))) for node in shown]
    whole = _table(rows, to)
    unbounded = to.options.update(max_width=_UNBOUNDED)
    if to.measure(whole, options=unbounded).maximum <= to.width:
        to.print(whole)
    else:
        for node, of_node in rows:
            to.print(_block(node, of_node))
    bare = [node.name for node in nodes if not node.cards and not node.lost]
    if bare:
        to.print(Text(printable(f"without cards: {several(bare)}"), style="dim"))
    to.print(_total(shown))


def _table(nodes: Iterable[tuple[ListedNode, Sequence[_Row]]], to: Screen) -> Table:
    table = to.grid(*_HEADS, unbroken=_HEADS)
    for node, rows in nodes:
        name = _name(node)
        for row in rows:
            table.add_row(name, row.card, row.held, row.by)
            name = Text()
    return table


def _block(node: ListedNode, rows: Iterable[_Row]) -> RenderableType:
    """A node on a terminal that is too narrow for a table."""
    lines: list[RenderableType] = [_name(node, style="bold")]
    for row in rows:
        lines.append(Padding(row.card, (0, 0, 0, 2), expand=False))
        if row.held:
            lines.append(Padding(row.held, (0, 0, 0, 4), expand=False))
        lines.append(Padding(row.by, (0, 0, 0, 4), expand=False))
    return Group(*lines)


def _rows(node: ListedNode, columns: _Columns) -> Iterator[_Row]:
    for card in node.cards:
        yield _Row(_card(card.card), columns.granted(card), columns.by(card.holders))
    for lost in node.lost:
        why = "not on the node" if node.given else "the node was not given"
        title = Text.assemble(printable(lost.card), (f"  {why}", "yellow"))
        yield _Row(title, Text(), columns.by(lost.holders))


def _name(node: ListedNode, style: str = "") -> Text:
    name = Text(printable(node.name), style=style)
    if node.closed:
        name.append("  closed", style="yellow")
    return name


def _card(card: Card) -> Text:
    parts = (f"{card.index}", card.model or card.vendor, card.mode)
    text = Text(printable(_GAP.join(part for part in parts if part)))
    if card.physical_bytes:
        text.append(f"{_GAP}has {card.physical_bytes // MIB} MiB", style="dim")
    states = (
        (not card.healthy, "unhealthy"), (card.hidden, "hidden"), (card.cordoned, "cordoned")
    )  # fmt: skip
    for said, word in states:
        if said:
            text.append(_GAP + word, style="yellow")
    return text


def _amounts(card: ListedCard) -> tuple[str, ...]:
    facts, held = card.card, card.held
    return (
        f"{held.memory_bytes // MIB}/{facts.memory_mib} MiB",
        f"{held.cores_percent:g}/{facts.cores_percent:g} %",
        f"{held.slots}/{facts.slots} slots",
    )


def _by(holder: ListedHolder) -> tuple[str, ...]:
    cores = f"{number(holder.cores_percent):g} %" if holder.cores_percent else ""
    return (
        f"{holder.namespace}/{holder.name}",
        ",".join(holder.dialects),
        f"{holder.memory_bytes // MIB} MiB",
        "whole" if holder.exclusive else cores,
        "" if holder.written else "(by its requests)",
    )


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _padded(cells: Iterable[str], widths: Iterable[int], sides: str) -> str:
    parts = [
        cell.ljust(width) if side == "l" else cell.rjust(width)
        for cell, width, side in zip(cells, widths, sides, strict=True)
    ]
    return _GAP.join(parts)


def _holders(node: ListedNode) -> Iterator[ListedHolder]:
    for card in node.cards:
        yield from card.holders
    for lost in node.lost:
        yield from lost.holders


def _total(nodes: Sequence[ListedNode]) -> Text:
    cards = [card for node in nodes for card in node.cards]
    held = sum(card.held.memory_bytes for card in cards) // MIB
    memory = sum(card.card.memory_mib for card in cards)
    pods = {(holder.namespace, holder.name) for node in nodes for holder in _holders(node)}
    return Text(
        f"{_count(len(cards), 'card')} on {_count(len(nodes), 'node')}: "
        f"{_count(len(pods), 'pod')} hold{'s' if len(pods) == 1 else ''} "
        f"{held} of {memory} MiB"
    )


def _count(number_of: int, what: str) -> str:
    return f"{number_of} {what}{'' if number_of == 1 else 's'}"
