"""HTTP: what our reader calls plain, the framework's parser reads in the same way; and it makes no
difference in which pieces a request comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Final

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser, RawRequestMessage
from msgspec import Struct

from tessera_runtime.http import fast_path, fast_request
from tessera_runtime.http.connections import ConnectionLimits
from tessera_runtime.http.fast_path import BodyLimits, Reply
from tessera_runtime.http.fast_request import FastRequest
from tests.fuzz.fuzzer import Fuzzer, mutated

Read = Callable[[bytearray], FastRequest | None]

HEADERS: Final = (
    b"Host: x:8888", b"Content-Length: 7", b"User-Agent: Go-http-client/1.1",
    b"Content-Type: application/json", b"Accept-Encoding: gzip", b"Accept: */*",
    b"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)  # fmt: skip
ODD: Final = (
    b"Content-Length: 7", b"Content-Length : 7", b"content-length: 07", b"Content-Length: 8",
    b"Content-Length: +7", b"Content-Length: 7, 7", b"Transfer-Encoding: chunked",
    b"Transfer-Encoding : chunked", b"Transfer-Encoding: identity", b"Content-Encoding: gzip",
    b"Connection: close", b"Connection: upgrade", b"Upgrade: h2c", b"Expect: 100-continue",
    b" folded: yes", b"\tfolded", b"X: a\rb", b"X: a\nTransfer-Encoding: chunked", b"X\0: 1",
    b"Host: y", b"Host:", b": 1", b"X", b"X: \x7f", b"\xe9: 1", b"X: \xe9", b"TE: trailers",
)  # fmt: skip
PIECES: Final = (
    b"\r\n", b"\r", b"\n", b" ", b"\t", b":", b";", b"\0", b"\x0b", b"\x7f", b"\xff", b"?", b"#",
    b"%00", b"//", b"HTTP/1.1", b"POST", b"\r\n\r\n", *ODD,
)  # fmt: skip
BODY: Final = b'{"a":1}'
PATH: Final = "/filter"


class Case(Struct, frozen=True):
    """Bytes of a connection, and where they are cut."""

    data: bytes
    cuts: tuple[int, ...]


def make(random: Random) -> Case:
    """A request or two, most of them with something odd."""
    data = b"".join(_request(random) for _ in range(random.choice((1, 1, 2))))
    if random.random() < 0.7:
        data = mutated(random, data, PIECES)
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.choice((1, 2, 10))))
    return Case(data, tuple(cuts))


def _request(random: Random) -> bytes:
    headers = [*HEADERS]
    random.shuffle(headers)
    if random.random() < 0.4:
        headers.insert(random.randrange(len(headers)), random.choice(ODD))
    if random.random() < 0.05:
        del headers[random.randrange(len(headers))]
    path = random.choice((b"/filter", b"/filter", b"/filter?timeout=5s", b"/other", b"/"))
    return b"\r\n".join((b"POST " + path + b" HTTP/1.1", *headers, b"", BODY))


class Parsed(BaseProtocol):
    """The framework's reading of the first request."""

    def __init__(self, data: bytes) -> None:
        """Raises HttpProcessingError and what else the parser raises."""
        super().__init__(_LOOP)
        parser = HttpRequestParser(
            self, _LOOP, 2**16, max_line_size=8190, max_field_size=8190, auto_decompress=False
        )
        messages, _, _ = parser.feed_data(data)
        self.message: RawRequestMessage | None = None
        if messages:
            self.message, payload = messages[0]
            self.body = bytes(payload.read_nowait()) if payload.total_bytes else b""


_LOOP = asyncio.new_event_loop()


def agrees(read: Read, case: Case) -> None:
    """What is known here, the framework reads in the same way; what is not yet decided stays so
    until more comes, and what is decided stays decided."""
    whole = read(bytearray(case.data))
    for cut in case.cuts:
        part = read(bytearray(case.data[:cut]))
        assert part is None or part == whole, f"in pieces: {part}, whole: {whole}"
    if whole is None or not whole.known or len(case.data) < whole.end:
        return
    try:
        message = (parsed := Parsed(case.data[: whole.end])).message
    except HttpProcessingError as e:
        raise AssertionError(f"plain here, refused by the framework: {e!r}") from e
    assert message is not None, "plain here, incomplete for the framework"
    assert message.method == "POST"
    assert message.path.partition("?")[0].encode() == whole.path
    unusual = message.should_close or message.upgrade or message.chunked or message.compression
    assert not unusual, "unusual for the framework"
    assert parsed.body == case.data[whole.start : whole.end]


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        """Nothing comes by itself."""

    def resume_reading(self) -> None:
        """Nothing comes by itself."""

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol


class Framework(asyncio.Protocol):
    """Keeps what is handed over."""

    def __init__(self) -> None:
        self.handed = b""

    def data_received(self, data: bytes) -> None:
        self.handed += data


async def _outcome(pieces: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    framework = Framework()
    async with fast_path.connections(
        {PATH: Reply}, lambda: framework, bodies=BodyLimits(1000), limits=ConnectionLimits(),
        idle_s=60, stop_s=0,
    ) as serving:  # fmt: skip
        wire = Wire()
        wire.protocol = protocol = serving.connection()
        protocol.connection_made(wire)
        for piece in pieces:
            if not wire.closed:
                protocol = wire.protocol
                assert isinstance(protocol, asyncio.Protocol)
                protocol.data_received(piece)
                for _ in range(4):
                    await asyncio.sleep(0)
        wire.protocol.connection_lost(None)
    return wire.written, framework.handed


def outcome(pieces: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """What is answered, and what is handed over, when a connection says this."""
    return _LOOP.run_until_complete(_outcome(pieces))


def same_in_pieces(of: Callable[[tuple[bytes, ...]], tuple[bytes, bytes]], case: Case) -> None:
    """Whole and cut."""
    edges = (0, *case.cuts, len(case.data))
    pieces = tuple(case.data[a:b] for a, b in pairwise(edges) if a < b)
    assert of(pieces) == of((case.data,))


def requests(read: Read = fast_request.read) -> Fuzzer:
    """With the reader that is tested."""
    return Fuzzer("requests", make, lambda case: agrees(read, case), 20_000)


def pieces(of: Callable[[tuple[bytes, ...]], tuple[bytes, bytes]] = outcome) -> Fuzzer:
    """With the connection that is tested."""
    return Fuzzer("pieces", make, lambda case: same_in_pieces(of, case), 1_500)
