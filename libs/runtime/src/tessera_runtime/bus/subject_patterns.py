"""Subjects and patterns of NATS: `*` stands for one token, `>` at the end for one or more.

Pure. Patterns are taken as they are: a `>` in the middle is not refused here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence


def matches(pattern: str, subject: str) -> bool:
    """True when the pattern covers the subject."""
    return meet(pattern, subject) == subject


def covered_by(pattern: str) -> Callable[[str], object]:
    """A function that says whether the pattern covers a subject; fast for many subjects."""
    tokens = {"*": "[^.]+", ">": ".+"}
    parts = (tokens.get(token, re.escape(token)) for token in pattern.split("."))
    return re.compile(r"\.".join(parts), re.DOTALL).fullmatch


def meet(one: str, other: str) -> str:
    """The pattern of what both cover; empty when there is no such subject."""
    return ".".join(_meet(one.split("."), other.split(".")))


def _meet(one: Sequence[str], other: Sequence[str]) -> list[str]:
    met: list[str] = []
    for i in range(max(len(one), len(other))):
        if i >= len(one) or i >= len(other):
            return []
        a, b = one[i], other[i]
        if a == ">":
            return [*met, *other[i:]]
        if b == ">":
            return [*met, *one[i:]]
        if a != b and "*" not in (a, b):
            return []
        met.append(b if a == "*" else a)
    return met
