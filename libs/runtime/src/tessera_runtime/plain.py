"""The one form of HTTP request that is read here: a POST over HTTP/1.1 with a Content-Length.

Whatever could be read in two ways, or needs more than waiting for its body, is not known: that is
for a web framework.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

HEAD_MOST: Final = 16 * 1024
"""Bytes of a request line and headers that are waited for."""
_HEADS: Final = 256
"""Heads of which it is remembered what they say, 4 MiB at the very most: clients send the same ones
again and again."""
_UNUSUAL: Final = re.compile(rb"\r\n(?:transfer-encoding|connection|expect|upgrade):|(?<!\r)\n")
"""Headers, in lower case, that change what a request means, and lines that end in two ways."""
_LENGTH: Final = b"\r\ncontent-length:"


class Request(NamedTuple):
    """A request whose headers have come."""

    path: bytes = b""
    """Without a query."""
    start: int = 0
    """Of the body, in the buffer."""
    length: int = -1
    """Of the body."""

    @property
    def known(self) -> bool:
        """False for a request of any other form."""
        return self.length >= 0

    @property
    def end(self) -> int:
        """Of the body, in the buffer."""
        return self.start + self.length


UNKNOWN: Final = Request()


def read(buffer: bytearray) -> Request | None:
    """The first request of the buffer; None while too little of it has come to tell."""
    over = buffer.find(b"\r\n\r\n", 0, HEAD_MOST)
    if over < 0:
        return UNKNOWN if len(buffer) >= HEAD_MOST else None
    return _read(bytes(memoryview(buffer)[:over]))


@lru_cache(_HEADS)
def _read(head: bytes) -> Request:
    """The request that begins so, up to the empty line after its headers."""
    line, _, _ = head.partition(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3 or words[0] != b"POST" or words[2] != b"HTTP/1.1":
        return UNKNOWN
    length = _length(head[len(line) :].lower())
    if length is None:
        return UNKNOWN
    return Request(words[1].partition(b"?")[0], len(head) + 4, length)


def _length(headers: bytes) -> int | None:
    """The body's length as the headers, in lower case, tell it; None where that is not plain."""
    if headers.count(_LENGTH) != 1 or _UNUSUAL.search(headers):
        return None
    value = headers.partition(_LENGTH)[2].partition(b"\r\n")[0].strip(b" \t")
    return int(value) if value.isdigit() and len(value) < 12 else None
