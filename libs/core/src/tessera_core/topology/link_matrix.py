"""Reads the table of card pairs that the driver's tool prints (`topo -m`).

    GPU0  GPU1  NIC0  CPU Affinity        columns of other devices and of affinities are skipped
    GPU0   X    PIX   SYS  0-15           the lower left repeats the upper right

`NV4` says that four direct links join two cards, and nothing of where they meet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from tessera_core.topology.tree import Pair, TopologyLevel

MOST_CARDS: Final = 256
LEVELS: Final = {
    "PSB": TopologyLevel.SINGLE,
    "PIX": TopologyLevel.SINGLE,
    "PXB": TopologyLevel.MULTIPLE,
    "PHB": TopologyLevel.HOST_BRIDGE,
    "SOC": TopologyLevel.NODE,
    "NODE": TopologyLevel.NODE,
    "SYS": TopologyLevel.SYSTEM,
}
"""PSB: one board, which counts as one switch. SOC: an older tool's word, which does not distinguish
processors apart."""
_DIRECT: Final = re.compile(r"NV(\d{1,3})")
_CARD: Final = re.compile(r"GPU(\d{1,3})")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


class BadMatrix(ValueError):
    """The text is no table of card pairs; the message names line and cell."""


class Matrix(Struct, frozen=True):
    """What the table says. Pairs that are not in `levels` are not known."""

    count: int
    levels: dict[Pair, TopologyLevel] = {}
    direct: dict[Pair, int] = {}
    """Number of direct links."""


def parse(text: str) -> Matrix:
    """Read the table. Where its two halves differ, the farther level and the fewer links count.

    Raises BadMatrix for a table without cards, with a row too few or too short, or with cards
    that are not numbered 0, 1, 2...
    """
    lines = [line.split() for line in _COLOURS.sub("", text).splitlines() if line.strip()]
    columns = _columns(lines[0] if lines else [])
    rows = {row[0]: row[1:] for row in lines[1:] if _CARD.fullmatch(row[0])}
    levels: dict[Pair, TopologyLevel] = {}
    direct: dict[Pair, int] = {}
    for a, b, cell in _cells(columns, rows):
        pair = (min(a, b), max(a, b))
        links = _DIRECT.fullmatch(cell)
        if links:
            direct[pair] = min(direct.get(pair, int(links[1])), int(links[1]))
        elif cell in LEVELS:
            levels[pair] = max(levels.get(pair, LEVELS[cell]), LEVELS[cell])
    return Matrix(len(columns), levels, direct)


def _columns(header: list[str]) -> dict[int, int]:
    """Card number -> column."""
    found = [(int(m[1]), i) for i, word in enumerate(header) if (m := _CARD.fullmatch(word))]
    if not 0 < len(found) <= MOST_CARDS or sorted(n for n, _ in found) != list(range(len(found))):
        raise BadMatrix(
            f"line 1: {' '.join(header)[:80]!r}: must name 1 to {MOST_CARDS} cards GPU0, GPU1, ..."
        )
    return dict(found)


def _cells(columns: dict[int, int], rows: dict[str, list[str]]) -> Iterator[tuple[int, int, str]]:
    """Every cell off the diagonal: row, column, word."""
    for a in columns:
        cells = rows.get(f"GPU{a}")
        if cells is None:
            raise BadMatrix(f"row GPU{a} is missing")
        for b, column in columns.items():
            if column >= len(cells):
                raise BadMatrix(f"row GPU{a}: {' '.join(cells)[:80]!r}: no cell for GPU{b}")
            if a != b:
                yield a, b, cells[column]
