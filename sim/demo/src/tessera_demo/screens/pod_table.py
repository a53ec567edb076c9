"""The pods: asked in the words of their YAML, granted, measured, or why they do not run."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from msgspec import Struct
from rich.text import Text

from tessera_cli.text import printable
from tessera_core.registry.registry import load
from tessera_demo.promises import Evidence, grants, words_of
from tessera_demo.scenario import name_of
from tessera_demo.screens.palette import mark_of
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant

WIDE: Final = 120
"""Columns from which a line has room for what the container sees."""
NARROW: Final = 72
"""Below it, measured and granted are one column."""
_GIB: Final = 1024
_GAP: Final = 2


class DemoPod(Struct, frozen=True, kw_only=True):
    """One pod."""

    name: str
    asked: str
    dialects: tuple[str, ...] = ()
    places: str = ""
    """Node and indexes of its cards; empty = it has none."""
    memory_mib: float = 0
    """Granted, over all of its cards."""
    cores_percent: float = 0
    """Granted, percent of a card; 0 = not limited."""
    sees_mib: float | None = None
    """What the driver says to its process; None = nothing was seen of that."""
    used_mib: float | None = None
    used_percent: float = 0
    words: str = ""
    """Why it does not run, in one line."""


def pod_rows(evidence: Evidence) -> list[DemoPod]:
    """The pods of the scene, in its order."""
    made, keys = grants(evidence.seen), load().request_keys
    return [_row(evidence, pod, made.get(name_of(pod)), keys) for pod in evidence.scene.pods]


def requested_amounts(pod: Mapping[str, Any], keys: Collection[str]) -> str:
    """What the manifest requests of cards, in its own words. `keys` are the annotations by which
    pods request cards."""
    notes = pod["metadata"].get("annotations", {})
    spec, said = pod["spec"], [", ".join(f"{k}: {v}" for k, v in notes.items() if k in keys)]
    for container in (*spec.get("initContainers", []), *spec["containers"]):
        amounts = container.get("resources", {}).get("limits", {})
        said.append(", ".join(f"{k}: {v}" for k, v in amounts.items() if "/" in k))
    return "; ".join(dict.fromkeys(filter(None, said)))


def table(rows: Sequence[DemoPod], width: int, *, folded: bool) -> list[Text]:
    """The heads and the rows. With `folded` no word is left out and a row may have several lines,
    else each has one, and names of resources have no domain."""
    widths = _widths(rows, width)
    heads = ("POD", "ASKED", "USED/GRANTED") if width < NARROW else (
        "POD", "ASKED", "GRANTED", "MEASURED",
    )  # fmt: skip
    head = "".join(f"{word:{size + _GAP}}" for word, size in zip(heads, widths, strict=True))
    lines = [Text(head.rstrip(), style="bold")]
    for row in rows:
        lines += _lines(row, widths, folded=folded)
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _row(
    evidence: Evidence, pod: Mapping[str, Any], grant: Grant | None, keys: Collection[str]
) -> DemoPod:
    name, asked = name_of(pod), requested_amounts(pod, keys)
    if grant is None:
        return DemoPod(name=name, asked=asked, words=_why(evidence, name))
    containers = dict.fromkeys(share.container for share in grant.shares)
    used = [evidence.seen.measured.get((grant.uid, one)) for one in containers]
    measured = [one for one in used if one is not None]
    lines = [
        line
        for one in containers if (grant.uid, one) in evidence.inside
        for line in evidence.inside[grant.uid, one].lines
        if line.get("event") == "card"
    ]  # fmt: skip
    return DemoPod(
        name=name, asked=asked, dialects=tuple(dict.fromkeys(s.dialect for s in grant.shares)),
        places=f"{grant.node}/{','.join(str(s.index) for s in grant.shares)}",
        memory_mib=sum(share.memory_bytes for share in grant.shares) / MIB,
        cores_percent=sum(share.cores_percent for share in grant.shares),
        sees_mib=sum(line["total_mib"] for line in lines) if lines else None,
        used_mib=sum(one.memory_mib for one in measured) if measured else None,
        used_percent=sum(one.cores_percent for one in measured),
    )  # fmt: skip


def _why(evidence: Evidence, name: str) -> str:
    if name in evidence.seen.refused:
        words = words_of(evidence, name)
        field, _, rest = words.partition(": ")
        return f"refused: {rest if '[' in field and rest else words}"
    found = evidence.explained.get(name)
    advice = found.advice if found is not None else ""
    words = advice or words_of(evidence, name)
    return f"waits: {words}" if words else ""


def _widths(rows: Sequence[DemoPod], width: int) -> list[int]:
    """Of the columns, without the gaps between them."""
    names = max((len(row.name) for row in rows), default=3)
    if width < NARROW:
        measured = 20
        name = min(names, 18)
        return [name, max(width - name - measured - 2 * _GAP, 5), measured]
    granted, measured = (27, 31) if width >= WIDE else (22, 11)
    name = min(names, 30 if width >= WIDE else 17)
    room = width - name - granted - measured - 3 * _GAP
    asked = max((len(_once(row.asked)) for row in rows), default=5)
    return [name, max(min(room, asked), 5), granted, measured]


def _lines(row: DemoPod, widths: Sequence[int], *, folded: bool) -> Iterator[Text]:
    narrow, wide = len(widths) == 3, widths[-1] > 20
    asked = _once(row.asked) if folded else _short(row.asked)
    if row.words or not row.places:
        cells, style = [row.name, asked, row.words or "is being placed"], "yellow"
        room = sum(widths[1:]) + _GAP * (len(widths) - 3)
        first = widths[1] if wide else min(len(asked), room * 2 // 5)
        widths = [widths[0], first, room - first]
    elif narrow:
        cells, style = [row.name, asked, _both(row)], ""
    else:
        cells, style = [row.name, asked, _granted(row, wide=wide), _measured(row, wide=wide)], ""
    mark = mark_of(row.dialects)
    parts = [
        textwrap.wrap(printable(cell), size)
        if folded
        else [_cut(printable(cell), size)]
        for cell, size in zip(cells, widths, strict=True)
    ]  # fmt: skip
    for pieces in zip_longest(*parts, fillvalue=""):
        line = Text()
        for i, (piece, size) in enumerate(zip(pieces, widths, strict=True)):
            shown = (mark.style if row.dialects else "", "", style, style)[i]
            line.append(f"{piece:{size + _GAP}}", style=shown)
        line.rstrip()
        yield line


def _once(asked: str) -> str:
    """The same words; a domain that the next name has too is not written again."""
    said, domain = list[str](), ""
    for part in asked.split(", "):
        mine, slash, rest = part.partition("/")
        said.append(rest if slash and mine == domain else part)
        domain = mine if slash else ""
    return ", ".join(said)


def _short(asked: str) -> str:
    """The names without their domains, as the pod's dialect is known by its name."""
    return ", ".join(part.rpartition("/")[2] for part in asked.split(", "))


def _granted(row: DemoPod, *, wide: bool) -> str:
    if not wide:
        cores = f" {row.cores_percent:g}%" if row.cores_percent else ""
        return f"{row.places} {row.memory_mib / _GIB:.1f}G{cores}"
    cores = f" {row.cores_percent:g} %" if row.cores_percent else ""
    return f"{row.places} {row.memory_mib / _GIB:.1f} GiB{cores}"


def _measured(row: DemoPod, *, wide: bool) -> str:
    if row.used_mib is None:
        return "not yet"
    used = row.used_mib / _GIB
    if not wide:
        return f"{used:.1f}G {row.used_percent:.0f}%"
    sees = f"sees {row.sees_mib / _GIB:.1f}, " if row.sees_mib is not None else ""
    return f"{sees}used {used:.1f} GiB, {row.used_percent:.0f} %"


def _both(row: DemoPod) -> str:
    used = "-" if row.used_mib is None else f"{row.used_mib / _GIB:.1f}"
    cores = f"/{row.cores_percent:g}" if row.cores_percent else ""
    return f"{used}/{row.memory_mib / _GIB:.1f}G {row.used_percent:.0f}{cores}%"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
