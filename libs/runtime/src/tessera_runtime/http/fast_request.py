"""The one form of HTTP request that is read here: a POST over HTTP/1.1 with a Content-Length.

Whatever departs from the grammar of HTTP, could be read in two ways, or needs more than waiting for
its body, is not known: that is for a web framework.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

HEAD_MOST: Final = 16 * 1024
"""Bytes of a request line and headers."""
HEADERS_MOST: Final = 100
"""Headers of a request; Go's clients send five to fifteen."""
_HEADS: Final = 256
"""Heads of which it is remembered what they say, 4 MiB at the very most: clients send the same ones
again and again."""
_HEAD: Final = re.compile(
    rb"POST (/[!-~]*) HTTP/1\.1"
    rb"((?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*)+)"
)
"""A request line and headers by the grammar of RFC 9110 (5.1, 5.5) and RFC 9112 (2, 3, 5): names
are tokens, nothing stands before the colon, values have no control characters, no line goes on in
the next one."""
_UNUSUAL: Final = frozenset(
    {b"connection", b"content-encoding", b"expect", b"te", b"trailer", b"transfer-encoding",
     b"upgrade"}
)  # fmt: skip
"""Headers, in lower case, that change what a request means or how its body is read."""
_NEEDED: Final = frozenset({b"host", b"content-length"})


class FastRequest(NamedTuple):
    """A request whose headers have come."""

    path: bytes = b""
    """Without a query; empty for a request of any other form."""
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


UNKNOWN: Final = FastRequest()
TOO_LONG: Final = FastRequest(length=-2)
"""One whose headers are too many or too long, of whatever form it is."""


def read(buffer: bytearray) -> FastRequest | None:
    """The first request of the buffer; None while too little of it has come."""
    over = buffer.find(b"\r\n\r\n", 0, HEAD_MOST)
    if over < 0:
        return TOO_LONG if len(buffer) >= HEAD_MOST else None
    head = bytes(memoryview(buffer)[:over])
    return TOO_LONG if head.count(b"\r\n") > HEADERS_MOST else _read(head)


@lru_cache(_HEADS)
def _read(head: bytes) -> FastRequest:
    """The request that begins so, up to the empty line after its headers."""
    found = _HEAD.fullmatch(head)
    length = _length(found[2]) if found is not None else None
    if found is None or length is None:
        return UNKNOWN
    return FastRequest(found[1].partition(b"?")[0], len(head) + 4, length)


def _length(lines: bytes) -> int | None:
    """The body's length as the header lines give it; None where one of them is unusual, is there
    twice, or is missing."""
    headers: dict[bytes, bytes] = {}
    for line in lines.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name in headers or name in _UNUSUAL:
            return None
        headers[name] = value
    if not headers.keys() >= _NEEDED:
        return None
    value = headers[b"content-length"].strip(b" \t")
    return int(value) if value.isdigit() and len(value) < 12 else None
