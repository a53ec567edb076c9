"""JSON decoding that fails in one way whatever comes in.

msgspec lets more errors through than its own: RecursionError for input nested without end,
UnicodeEncodeError for text with lone surrogates, and UnicodeDecodeError for bytes that are no
UTF-8. All of them are just malformed input here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import TypeVar

import msgspec

T = TypeVar("T")


def decoder(type_: type[T] | UnionType) -> Callable[[bytes | str], T]:
    """A function that reads a `type_` and raises only msgspec.DecodeError (which
    msgspec.ValidationError is)."""
    decode: Callable[[bytes | str], T] = msgspec.json.Decoder(type_).decode

    def read(data: bytes | str) -> T:
        try:
            return decode(data)
        except RecursionError:
            raise msgspec.DecodeError("nested too deeply") from None
        except UnicodeError as e:
            raise msgspec.DecodeError(f"not valid text: {e}") from None

    return read
