"""Work in slices: a generator that pauses after each small piece, and returns what it found.

How small a piece is, is counted in pods, nodes or trials: 5 ms at most in a cluster of 3,000 nodes
(docs/measurements.md). The caller decides how many pieces it takes before it lets others run. What
changes between two pieces is seen or not; a plan is checked once more before it is carried out.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Slices: TypeAlias = Generator[None, None, T]


def at_once(work: Slices[T]) -> T:
    """What the work comes to, without pauses."""
    while True:
        try:
            next(work)
        except StopIteration as e:
            found: T = e.value
            return found
