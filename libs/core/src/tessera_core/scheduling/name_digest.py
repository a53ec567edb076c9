"""A number for many names that does not depend on their order.

kube-scheduler offers the same thousand nodes with every pod, in another order each time. To decode
them only to find that they are the same takes longer than to look for the best of them. Names of
one length lie in the text like the rows of a table, so all are read at once, eight bytes at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

LEAST: Final = 4096
"""Bytes of text from which on this is quicker than to decode the names."""
_WORD: Final = 8
_AROUND: Final = 3
"""Bytes of a name's quotes and comma."""
_SHIFT: Final = np.uint64(32)
_FACTORS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
"""Odd, with about half of their bits set, so that each bit of a word changes half of the total."""


class NameDigest(NamedTuple):
    """Of names of one length. Other names have another one but for a chance of one in 2**64."""

    names: int
    """How many there are."""
    width: int
    """Bytes of a row: a name, its quotes and its comma."""
    total: int


def digest_of(names: Sequence[str], text: bytes) -> NameDigest | None:
    """The digest of these names, whose JSON without spaces is `text`; None where they are few,
    differ in length, have less than six letters or need escapes."""
    found = text_digest(text)
    if found is None or len(names) != found.names:
        return None
    alike = all(len(name) + _AROUND == found.width and name.isascii() for name in names)
    return found if alike else None


def text_digest(text: bytes) -> NameDigest | None:
    """The digest of the rows of a list of names as well-formed JSON. Where it is that of other
    names by `digest_of`, the rows are the same, and so are the names."""
    width = text.find(b'"', 2) + 2 - text.find(b'"')
    count, rest = divmod(len(text) - 1, max(width, 1))
    if len(text) < LEAST or rest or width <= _WORD:
        return None
    # of a row all but the comma is read; the last word may overlap the one before it
    starts = {*range(0, width - _WORD, _WORD), width - 1 - _WORD}
    mixed: NDArray[np.uint64] = np.zeros(count, np.uint64)
    for start in sorted(starts):
        mixed ^= np.ndarray((count,), "<u8", text, 1 + start, (width,))
        mixed *= _FACTORS[0]
        mixed ^= mixed >> _SHIFT
        mixed *= _FACTORS[1]
        mixed ^= mixed >> _SHIFT
    return NameDigest(count, width, int(mixed.sum()))
