"""A number for many names that does not depend on their order.

kube-scheduler offers the same thousand nodes with every pod, in another order each time. To decode
them only to find that they are the same takes longer than to look for the best of them. So their
letters are read where they lie, eight bytes of all names at a time; names of one length lie like
the rows of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

LEAST: Final = 4 << 10
"""Bytes of text from which on this is quicker than to decode names of one length."""
LEAST_OF_ANY: Final = 64 << 10
"""The same for names that differ in length."""
_WORD: Final = 8
_QUOTES: Final = 2
_AROUND: Final = 3
"""Bytes of a name's quotes and comma."""
_SHIFT: Final = np.uint64(32)
_FACTORS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
"""Odd, with about half of their bits set, so that each bit of a word changes half of the total."""

_Words = NDArray[np.uint64]


class NameDigest(NamedTuple):
    """Of a list of names. Other names have another one but for a chance of one in 2**64."""

    names: int
    """How many there are."""
    width: int
    """Bytes of each name, its quotes and its comma; 0 where they differ in length."""
    total: int


def digest_of(names: Sequence[str], text: bytes) -> NameDigest | None:
    """The digest of these names, whose JSON without spaces is `text`; None where they are few, or
    some of them have less than six letters or need escapes."""
    lengths = {len(name) for name in names}
    if min(lengths, default=0) + _QUOTES < _WORD:
        return None
    alike = len(lengths) == 1 and text.isascii()
    return _digest(text, lengths.pop() + _AROUND if alike else 0)


def has_digest(text: bytes, digest: NameDigest) -> bool:
    """Whether a list of names, as well-formed JSON, is that of the digest but for its order."""
    return _digest(text, digest.width) == digest


def _digest(text: bytes, width: int) -> NameDigest | None:
    if len(text) < (LEAST if width else LEAST_OF_ANY):
        return None
    if b"\\" in text or not text.startswith(b'["'):
        return None
    every: _Words = np.ndarray((len(text) - _WORD + 1,), "<u8", text, 0, (1,))
    if width:
        count, rest = divmod(len(text) - 1, width)
        read = None if rest else _of_one_length(every, count, width)
    else:
        read = _of_any_length(every, text)
    if read is None:
        return None
    mixed = next(read).copy()
    for words in read:
        mixed *= _FACTORS[0]
        mixed ^= mixed >> _SHIFT
        mixed ^= words
    for factor in _FACTORS:
        mixed *= factor
        mixed ^= mixed >> _SHIFT
    return NameDigest(len(mixed), width, int(mixed.sum()))


def _of_one_length(every: _Words, count: int, width: int) -> Iterator[_Words]:
    """Of a row `"name",` all but the comma; the last word may overlap the one before it."""
    last = width - 1 - _WORD
    for at in (*range(0, last, _WORD), last):
        yield every[1 + at :: width][:count]


def _of_any_length(every: _Words, text: bytes) -> Iterator[_Words] | None:
    """Each name's length, and its letters and quotes; the last word of a name may come again, and
    overlap the one before it. None where a name is too short to be read so."""
    quotes = np.flatnonzero(np.frombuffer(text, np.uint8) == ord('"'))
    starts, last = quotes[::2], quotes[1::2] - (_WORD - 1)
    lengths = last - starts
    if lengths.min(initial=0) < 0:
        return None
    longest = int(lengths.max(initial=0))
    words = (every[np.minimum(starts + at, last)] for at in range(0, longest + _WORD, _WORD))
    return chain([lengths.astype(np.uint64)], words)
