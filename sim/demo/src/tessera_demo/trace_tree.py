"""A trace as a tree, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tessera_embedded.collector import Collected


def tree(spans: Sequence[Collected]) -> list[str]:
    """A line for each span, children below their parents, with start and duration in ms."""
    known = {span.id for span in spans}
    below: dict[str, list[Collected]] = {}
    for span in spans:
        below.setdefault(span.parent if span.parent in known else "", []).append(span)
    first = min((span.start_ns for span in spans), default=0)
    return list(_lines(below, "", first, ""))


def _lines(
    below: dict[str, list[Collected]], parent: str, first: int, indent: str
) -> Iterator[str]:
    children = below.get(parent, [])
    for child in children:
        last = child is children[-1]
        start, took = (child.start_ns - first) / 1e6, (child.end_ns - child.start_ns) / 1e6
        about = f"+{start:.0f} ms, {took:.1f} ms  ({child.service} {child.process})"
        mark = " FAILED" if child.failed else ""
        yield f"{indent}{'└─' if last else '├─'} {child.name}  {about}{mark}"
        yield from _lines(below, child.id, first, indent + ("   " if last else "│  "))
