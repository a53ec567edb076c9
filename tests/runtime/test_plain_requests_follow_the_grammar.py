"""A head that departs from the grammar of HTTP, or that could be read in two ways, is not plain."""

from __future__ import annotations

import pytest

from tessera_runtime.http.fast_request import UNKNOWN, FastRequest, read

PLAIN = b"POST /filter?timeout=5s HTTP/1.1\r\nHost: x:1\r\nContent-Length:\t3 \r\nAccept: */*"


def said(head: bytes) -> FastRequest | None:
    return read(bytearray(head + b"\r\n\r\nabc"))


def test_a_plain_head_is_read() -> None:
    assert said(PLAIN) == FastRequest(b"/filter", len(PLAIN) + 4, 3)


@pytest.mark.parametrize(
    "line",
    [
        b"User-Agent: Go-http-client/2.0 (a; b)",
        b"Accept-Encoding: gzip",
        b"X-Empty:",
        b"X-Tab: a\tb",
        b"X-Latin: \xe9t\xe9",
        b"!#$%&'*+.^_`|~09azAZ-: a token",
    ],
)
def test_a_header_of_any_name_and_value_is_read(line: bytes) -> None:
    assert said(PLAIN + b"\r\n" + line) == FastRequest(b"/filter", len(PLAIN + line) + 6, 3)


@pytest.mark.parametrize(
    "line",
    [
        b"X-A : blank before the colon",
        b"X A: blank in a name",
        b"X-\xe9: no token",
        b"X(a): no token",
        b": no name",
        b"no colon",
        b" folded: line",
        b"\tfolded",
        b"X-A: bare\rreturn",
        b"X-A: bare\nline",
        b"X-A: zero\0",
        b"X-A: bell\x07",
        b"X-A: delete\x7f",
        b"Host: y",
        b"hOsT: x",
        b"content-length: 3",
        b"Content-Length : 3",
        b"Transfer-Encoding: chunked",
        b"transfer-encoding: identity",
        b"Transfer-Encoding : chunked",
        b"Content-Encoding: gzip",
        b"Content-Encoding: identity",
        b"Connection: close",
        b"Expect: 100-continue",
        b"Upgrade: h2c",
        b"TE: trailers",
        b"Trailer: X",
        b"Accept: */*",
    ],
)
def test_a_header_of_another_form_is_left_to_the_framework(line: bytes) -> None:
    assert said(PLAIN + b"\r\n" + line) == UNKNOWN
    first, _, rest = PLAIN.partition(b"\r\n")
    assert said(first + b"\r\n" + line + b"\r\n" + rest) == UNKNOWN


@pytest.mark.parametrize(
    ("plain", "otherwise"),
    [
        (b"Host: x:1\r\n", b""),
        (b"Content-Length:\t3 \r\n", b""),
        (b"POST /", b"POST  /"),
        (b"POST /", b"post /"),
        (b"POST /", b"POST http://x/"),
        (b"POST /", b"POST "),
        (b"POST /", b"\r\nPOST /"),
        (b"?timeout", b"?\xe9"),
        (b"?timeout", b"?\x07"),
        (b"?timeout", b"?\t"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"HTTP/1.1", b"HTTP/1.1 "),
        (b"HTTP/1.1", b"HTTP/1.10"),
        (b"\t3 ", b"+3"),
        (b"\t3 ", b"0x3"),
        (b"\t3 ", b"3, 3"),
        (b"\t3 ", b"\xb2"),
        (b"\t3 ", b""),
        (b"\t3 ", b"1" * 12),
    ],
)
def test_what_is_missing_or_malformed_is_left_to_the_framework(
    plain: bytes, otherwise: bytes
) -> None:
    assert plain in PLAIN
    assert said(PLAIN.replace(plain, otherwise, 1)) == UNKNOWN
