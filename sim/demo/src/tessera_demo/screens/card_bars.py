"""The cards of each node side by side, as bars in the letters and colours of dialects.

The cells are those of `tessera top`: of each share the used part first. Here the used part has the
letter of the share's dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from tessera_cli.text import printable
from tessera_cli.top.bars import Glyphs, memory_bar, share_cells, used_cells
from tessera_core.occupancy.rows import CardRow, NodeRow
from tessera_demo.screens.palette import mark_of

_MOST_CELLS: Final = 12
_LEAST_CELLS: Final = 3


def node_lines(nodes: Sequence[NodeRow], width: int, glyphs: Glyphs) -> list[Text]:
    """A line for each node; several where its cards do not fit next to each other."""
    most = max((len(node.cards) for node in nodes), default=1) or 1
    name = max((len(node.name) for node in nodes), default=0)
    room = (width - name) // most - 4  # index, and blanks around it
    cells = min(max(room, _LEAST_CELLS), _MOST_CELLS)
    next_to = max((width - name) // (cells + 4), 1)
    return [line for node in nodes for line in _node(node, name, (cells, next_to), glyphs)]


def dialect_bar(row: CardRow, width: int, glyphs: Glyphs) -> Text:
    """One card drawn to scale: letters are memory in use, blocks what is granted beyond it."""
    if not row.published or not row.card.healthy:
        return memory_bar(row, width, glyphs)
    text = Text()
    for cells, share in zip(share_cells(row, width), row.shares, strict=False):
        mark = mark_of(share.dialects)
        used = max(used_cells(share, cells), 1)
        text.append(mark.letter * used, style=f"bold {mark.style}")
        text.append(glyphs.granted * (cells - used), style=mark.style)
    text.append(glyphs.free * (width - len(text.plain)), style="bright_black")
    return text


def _node(
    node: NodeRow, name: int, shape: tuple[int, int], glyphs: Glyphs
) -> Iterator[Text]:  # fmt: skip
    cells, next_to = shape
    for at in range(0, max(len(node.cards), 1), next_to):
        line = Text(f"{'' if at else printable(node.name):{name}}")
        for card in node.cards[at : at + next_to]:
            line.append(f" {card.card.index:>2} ", style="bright_black")
            line.append_text(dialect_bar(card, cells, glyphs))
        yield line
