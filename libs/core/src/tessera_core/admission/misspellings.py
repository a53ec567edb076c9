"""Words that are nearly known ones: names and keys that a user mistyped.

Near is: equal but for case and separators, or at most `MOST_EDITS` letters apart. A letter that is
missing, added or another one, and two letters that changed places, are one edit each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MOST_EDITS: Final = 2
"""Letters. With three, names of different things (`gpumem`, `gpu`) would pass for one another."""
_FAR: Final = MOST_EDITS + 1
_LONGEST: Final = 128
"""Characters. Longer words are no mistyped names of Tessera's, and would cost the square of
that."""
_SHOWN: Final = 3
_SEPARATORS: Final = str.maketrans("", "", "-_.")


def nearest(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known words that are nearest to this one, in alphabetical order, at most three; none
    where none is near."""
    if len(word) > _LONGEST:
        return ()
    plain = _plain(word)
    found: dict[int, list[str]] = {}
    for other in sorted(set(known)):
        apart = 0 if _plain(other) == plain else _edits(word, other)
        if apart <= MOST_EDITS:
            found.setdefault(apart, []).append(other)
    return tuple(found[min(found)][:_SHOWN]) if found else ()


def _plain(word: str) -> str:
    return word.lower().translate(_SEPARATORS)


def _edits(one: str, other: str) -> int:
    """How many edits the words are apart; exact up to `MOST_EDITS`, else more than that.

    Only the letters between what both begin and end with are compared, and each only with those
    that are at most `MOST_EDITS` places away: others would take more edits than that.
    """
    if abs(len(one) - len(other)) > MOST_EDITS:
        return _FAR
    one, other = _differing(one, other)
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last = row, before
        row = [i, *[_FAR] * len(other)]
        for j in range(max(1, i - MOST_EDITS), min(len(other), i + MOST_EDITS) + 1):
            wanted = other[j - 1]
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                best = min(best, last[j - 2] + 1)
            row[j] = best
        if min(row) > MOST_EDITS:
            return _FAR
    return row[-1]


def _differing(one: str, other: str) -> tuple[str, str]:
    """The words without what both begin with, and without what both then end with."""
    start, most = 0, min(len(one), len(other))
    while start < most and one[start] == other[start]:
        start += 1
    end = 0
    while end < most - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return one[start : len(one) - end], other[start : len(other) - end]
