"""What all fuzzers have: inputs that a seed and a number determine, and the report of one that
broke something.

A fuzzer is given what it tests as an argument, so that a test can give it something broken and see
that it notices. A failing input is made again from its seed and number:

    make fuzz FUZZER=requests SEED=7 AT=123
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from msgspec import Struct

_PIECES: Final = (
    b"", b"\0", b"\t", b"\r", b"\n", b"\r\n", b" ", b"\"", b"\\", b"{", b"}", b"[", b"]", b":",
    b",", b"-", b"+", b"0", b"9", b"1e308", b"-1", b"9223372036854775808", b"NaN", b"null",
    b"\x7f", b"\x80", b"\xff", b"\xed\xa0\x80", b"\xf0\x9f\x92\xa9", b"A" * 300,
)  # fmt: skip


class Fuzzer(Struct, frozen=True):
    """One of them."""

    name: str
    make: Callable[[Random], Any]
    """An input, from chance alone."""
    check: Callable[[Any], None]
    """Raises where the input breaks something."""
    few: int
    """Inputs of a normal test run: two seconds or so."""


class Found(AssertionError):
    """An input that breaks something."""


def fuzz(fuzzer: Fuzzer, number: int, seed: int, at: int | None = None) -> None:
    """So many inputs of this seed, or the one at a number. Raises Found."""
    for i in range(number) if at is None else (at,):
        made = fuzzer.make(Random(f"{fuzzer.name} {seed} {i}"))  # noqa: S311  (reproducible)
        try:
            fuzzer.check(made)
        except Exception as e:
            raise Found(
                f"{type(e).__name__}: {e}\n"
                f"input: {str(made)[:4000]}\n"
                f"again: make fuzz FUZZER={fuzzer.name} SEED={seed} AT={i}"
            ) from e


def mutated(random: Random, data: bytes, pieces: Sequence[bytes] = _PIECES) -> bytes:
    """The data with up to four changes: something put in, taken out, doubled, moved or flipped."""
    changed = bytearray(data)
    for _ in range(random.choice((0, 1, 1, 1, 2, 4))):
        at = random.randrange(len(changed) + 1)
        to = min(len(changed), at + random.choice((1, 1, 2, 8, 40)))
        match random.randrange(5):
            case 0:
                changed[at:at] = random.choice(pieces)
            case 1:
                del changed[at:to]
            case 2:
                changed[at:at] = changed[at:to]
            case 3:
                changed[at:to] = random.choice(pieces)
            case _:
                if at < len(changed):
                    changed[at] ^= 1 << random.randrange(8)
    return bytes(changed)
