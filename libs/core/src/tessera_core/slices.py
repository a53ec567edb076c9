"""Work in slices: a generator that pauses after each small piece, and returns what it found.

How small a piece is, is counted in pods, nodes or trials: 5 ms at most in a cluster of 3,000 nodes
(docs/measurements.md). The caller decides how many pieces it takes before it lets others run. What
changes between two pieces is seen or not; a plan is checked once more before it is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")
Slices: TypeAlias = Generator[None, None, T]
ITEMS: Final = 32
"""Items of a list in one slice."""


def for_each(items: Iterable[T], do: Callable[[T], object]) -> Slices[None]:
    """Do something with each of the items, which do not change meanwhile."""
    for count, item in enumerate(items, 1):
        do(item)
        if count % ITEMS == 0:
            yield


def at_once(work: Slices[T]) -> T:
    """What the work comes to, without pauses."""
    while True:
        try:
            next(work)
        except StopIteration as e:
            found: T = e.value
            return found
