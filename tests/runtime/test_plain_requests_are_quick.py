"""POSTs that are answered without the web framework, and those that are left to it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tessera_runtime.http import fast_path
from tessera_runtime.http.connections import ConnectionLimits
from tessera_runtime.http.fast_path import Answer, BodyLimits, Reply
from tessera_runtime.http.fast_request import HEAD_MOST, HEADERS_MOST
from tessera_runtime.http.server import HttpServer, HttpSettings, application, serving

SETTINGS = HttpSettings(body_bytes=3_000_000, stop_s=0.5)
LONG_S = 60.0


def size(body: bytes) -> Reply:
    return Reply(b"%d" % len(body))


def fails(_: bytes) -> Reply:
    raise RuntimeError("a bug")


async def slow_size(body: bytes) -> Reply:
    await asyncio.sleep(0.05)
    return size(body)


async def fails_later(_: bytes) -> Reply:
    await asyncio.sleep(0)
    raise RuntimeError("a bug")


ANSWERS: Mapping[str, Answer] = {
    "/size": size, "/slow": slow_size, "/fails": fails, "/fails-later": fails_later,
}  # fmt: skip


class Caller:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def says(self, request: bytes) -> None:
        self.writer.write(request)
        await self.writer.drain()

    async def receives(self) -> tuple[int, bytes]:
        async with asyncio.timeout(LONG_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            return int(head.split()[1]), await self.reader.readexactly(length)

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        await self.says(request)
        return await self.receives()

    async def is_let_go(self) -> bool:
        async with asyncio.timeout(LONG_S):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True


def post(path: str, body: bytes, *more: str) -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *more)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def calling(served: HttpServer) -> AsyncGenerator[Caller]:
    reader, writer = await asyncio.open_connection(served.host, served.port)
    try:
        yield Caller(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def a_server() -> AsyncGenerator[Caller]:
    app = application(SETTINGS)

    async def framework(request: web.Request) -> web.Response:
        return web.Response(text=f"framework {len(await request.read())}")

    app.router.add_route("*", "/other", framework)
    async with serving(app, SETTINGS, answers=ANSWERS) as served, calling(served) as caller:
        yield caller


async def test_requests_on_one_connection_are_answered_in_turn() -> None:
    async with a_server() as caller:
        assert await caller.exchange(post("/size", b"12345")) == (200, b"5")
        assert await caller.exchange(post("/size?timeout=5s", b"")) == (200, b"0")
        assert await caller.exchange(post("/slow", b"123")) == (200, b"3")


async def test_requests_may_come_all_at_once() -> None:
    async with a_server() as caller:
        await caller.says(post("/slow", b"1") + post("/size", b"22") + post("/slow", b"333"))
        assert [await caller.receives() for _ in range(3)] == [
            (200, b"1"),
            (200, b"2"),
            (200, b"3"),
        ]


async def test_requests_may_come_in_pieces() -> None:
    async with a_server() as caller:
        both = post("/size", b"12345") + post("/size", b"1")
        for i in range(len(both)):
            await caller.says(both[i : i + 1])
            await asyncio.sleep(0)
        assert [await caller.receives() for _ in range(2)] == [(200, b"5"), (200, b"1")]


async def test_large_bodies_are_taken_up_to_the_limit() -> None:
    async with a_server() as caller:
        most = SETTINGS.body_bytes
        assert await caller.exchange(post("/size", b"x" * most)) == (200, b"%d" % most)
        assert (await caller.exchange(post("/size", b"x" * (most + 1))))[0] == 413


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        (b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n", 200, b"framework 0"),
        (post("/other", b"123"), 200, b"framework 3"),
        (post("/none", b"1"), 404, b"404: Not Found"),
        (b"GET /size HTTP/1.1\r\nHost: x\r\n\r\n", 405, b"405: Method Not Allowed"),
        (post("/size", b"123", "Connection: close"), 200, b"3"),
        (post("/fails", b"", "Connection: close"), 500, b"it failed: see the log\n"),
        (post("/size", b"123").replace(b"HTTP/1.1", b"HTTP/1.0"), 200, b"3"),
        (
            b"POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
            200,
            b"4",
        ),
    ],
)
async def test_what_is_unusual_is_left_to_the_framework(
    request_: bytes, status: int, says: bytes
) -> None:
    async with a_server() as caller:
        assert await caller.exchange(post("/size", b"1234")) == (200, b"4")
        assert await caller.exchange(request_) == (status, says)


async def test_a_connection_ends_with_something_unusual() -> None:
    async with a_server() as caller:
        await caller.says(post("/other", b"1") + post("/size", b"22"))
        async with asyncio.timeout(LONG_S):
            head, _, rest = (await caller.reader.read()).partition(b"\r\n\r\n")
        assert b"\r\nConnection: close" in head
        assert rest == b"framework 1"


async def test_who_waits_to_be_reported_to_go_on_is_reported() -> None:
    async with a_server() as caller:
        await caller.says(post("/size", b"", "Expect: 100-continue").replace(b": 0", b": 3"))
        async with asyncio.timeout(LONG_S):
            assert b"100" in await caller.reader.readuntil(b"\r\n\r\n")
        assert await caller.exchange(b"abc") == (200, b"3")


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 3\r\nContent-Length: 30",
        "Content-Length: +3",
        "Content-Length: 0x3",
        "Content-Length: 3, 3",
        "Content-Length : 3",
        "X: a\nTransfer-Encoding: chunked\r\nContent-Length: 3",
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused(lines: str) -> None:
    async with a_server() as caller:
        await caller.says(f"POST /size HTTP/1.1\r\nHost: x\r\n{lines}\r\n\r\nabc".encode())
        assert (await caller.receives())[0] == 400


@pytest.mark.parametrize(
    "lines", ["X-Long: " + "x" * HEAD_MOST, "\r\n".join(f"X-{i}: 1" for i in range(HEADERS_MOST))]
)
async def test_too_many_or_too_long_headers_are_refused(lines: str) -> None:
    async with a_server() as caller:
        status, says = await caller.exchange(post("/other", b"abc", lines))
        assert (status, says) == (431, b"headers: more than 16384 bytes or 100 lines: send less\n")


async def test_a_body_that_would_have_to_be_inflated_is_refused() -> None:
    async with a_server() as caller:
        assert (await caller.exchange(post("/other", b"abc", "Content-Encoding: gzip")))[0] == 415


async def test_a_request_that_fails_ends_nothing() -> None:
    async with a_server() as caller:
        assert await caller.exchange(post("/fails", b"")) == (500, b"it failed: see the log\n")
        assert await caller.exchange(post("/fails-later", b"")) == (
            500,
            b"it failed: see the log\n",
        )
        assert await caller.exchange(post("/size", b"1")) == (200, b"1")


async def test_who_does_not_read_is_not_answered_without_end() -> None:
    asked = 0

    def much(_: bytes) -> Reply:
        nonlocal asked
        asked += 1
        return Reply(b"x" * 1_000_000)

    app = application(SETTINGS)
    async with (
        serving(app, SETTINGS, answers={"/much": much, "/size": size}) as served,
        calling(served) as caller,
        calling(served) as other,
    ):
        caller.writer.write(post("/much", b"") * 500)
        for _ in range(50):  # while the first is stuck, others are answered
            assert await other.exchange(post("/size", b"1")) == (200, b"1")
        assert asked < 500
        for _ in range(500):
            assert len((await caller.receives())[1]) == 1_000_000
        assert asked == 500


async def test_who_hangs_up_before_the_answer_harms_nobody() -> None:
    app = application(SETTINGS)
    async with serving(app, SETTINGS, answers=ANSWERS) as served:
        for last in (b"", post("/size", b"1"), b"GET / HTTP/1.1\r\n\r\n"):
            for abruptly in (False, True):
                reader, writer = await asyncio.open_connection(served.host, served.port)
                del reader
                writer.write(post("/slow", b"123") + last)
                await writer.drain()
                if abruptly:
                    writer.transport.abort()
                else:
                    writer.close()
        await asyncio.sleep(0.2)
        async with calling(served) as caller:
            assert await caller.exchange(post("/slow", b"12")) == (200, b"2")


@pytest.mark.parametrize(("takes_s", "stop_s"), [(0.05, LONG_S), (1_000_000, 0.1)])
async def test_open_requests_may_end_and_those_that_do_not_are_cut(
    takes_s: float, stop_s: float
) -> None:
    begun = asyncio.Event()

    async def slow(body: bytes) -> Reply:
        begun.set()
        await asyncio.sleep(takes_s)
        return size(body)

    settings = HttpSettings(stop_s=stop_s)
    async with serving(application(settings), settings, answers={"/slow": slow}) as served:
        idle, busy = [
            Caller(*await asyncio.open_connection(served.host, served.port)) for _ in "ab"
        ]
        await busy.says(post("/slow", b"12"))
        await begun.wait()
    if takes_s < stop_s:
        assert await busy.receives() == (200, b"2")
    for caller in (idle, busy):
        assert await caller.is_let_go()
        caller.writer.close()


@pytest.mark.looptime
async def test_idle_connections_are_let_go() -> None:
    async with fast_path.connections(
        {"/slow": slow_size},
        asyncio.Protocol,
        bodies=BodyLimits(100),
        limits=ConnectionLimits(),
        idle_s=0.02,
        stop_s=0.1,
    ) as connections:
        here, there = socket.socketpair()
        await asyncio.get_running_loop().connect_accepted_socket(connections.connection, there)
        caller = Caller(*await asyncio.open_connection(sock=here))
        assert await caller.exchange(post("/slow", b"1")) == (
            200,
            b"1",
        )  # longer than it may be idle
        assert await caller.is_let_go()
        caller.writer.close()
