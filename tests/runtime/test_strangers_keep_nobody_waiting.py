"""However many connect, and however little they say, the others are served and nothing grows."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from msgspec import Struct

from tessera_runtime.http import fast_path, handover
from tessera_runtime.http.connections import (
    CONNECTIONS_MOST,
    PATIENCE_S,
    REQUEST_S,
    REQUESTS_MOST,
    SWEEP_S,
    ConnectionLimits,
)  # fmt: skip
from tessera_runtime.http.fast_path import BodyLimits, FastServer, Reply
from tessera_runtime.http.handshake import HANDSHAKE_S
from tests.runtime.strangers import a_client, post, still_open, strangers
from tests.runtime.test_servers_answer import write_certificate

BODY_MOST = 8 * 2**20
IDLE_S = 120.0
LIMITS = ConnectionLimits()
pytestmark = pytest.mark.looptime


class Server(Struct):
    serving: FastServer
    address: tuple[str, int]


async def slow(body: bytes) -> Reply:
    await asyncio.sleep(5 * REQUEST_S)
    return Reply(body)


@asynccontextmanager
async def a_server(
    limits: ConnectionLimits = LIMITS, context: ssl.SSLContext | None = None
) -> AsyncGenerator[Server]:
    async def read(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    app = web.Application(client_max_size=BODY_MOST, middlewares=[handover.as_it_is])
    app.on_response_prepare.append(handover.last_answer)
    app.router.add_post("/framework", read)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    assert runner.server is not None
    answers: dict[str, fast_path.Answer] = {"/size": lambda b: Reply(b"%d" % len(b)), "/slow": slow}
    async with fast_path.connections(
        answers, runner.server, bodies=BodyLimits(BODY_MOST), limits=limits, idle_s=IDLE_S,
        stop_s=0.1,
    ) as serving:  # fmt: skip
        listening = socket.create_server(("127.0.0.1", 0))
        async with serving.accepting(listening, 1024, context):
            yield Server(serving, listening.getsockname()[:2])
    await runner.cleanup()


async def test_500_connections_that_trickle_keep_nobody_out() -> None:
    async with (
        a_server() as server,
        a_client(server.address) as known,
    ):
        assert await known.exchange(b"123") == (200, b"3")
        async with strangers(server.address, 500) as crowd:
            for second in range(int(REQUEST_S) + 2):
                for client in crowd:
                    client.sends(b"POST /size HTTP/1.1\r\nX-Slow: " if second == 0 else b"x")
                assert await known.exchange(b"123") == (200, b"3")
                async with a_client(server.address) as new:
                    assert await new.exchange(b"x" * 1_000_000) == (200, b"1000000")
                assert len(server.serving.peers) <= CONNECTIONS_MOST
                await asyncio.sleep(1)
            assert await still_open(crowd) == 0
            assert len(server.serving.peers) == 1
            assert server.serving.peers.reserved == 0


async def test_a_connection_that_is_idle_outlives_a_crowd_that_owes_something() -> None:
    async with (
        a_server() as server,
        a_client(server.address) as known,
        strangers(server.address, CONNECTIONS_MOST - 1) as crowd,
    ):
        assert await known.exchange(b"123") == (200, b"3")
        for client in crowd:
            client.sends(b"P")
        await asyncio.sleep(2 * PATIENCE_S)
        async with strangers(server.address, 10):
            assert await known.exchange(b"1234") == (200, b"4")
            assert await still_open(crowd) == CONNECTIONS_MOST - 11


async def test_40_large_bodies_that_do_not_end_are_bounded_and_cut() -> None:
    part = BODY_MOST - 64 * 1024
    async with a_server() as server, strangers(server.address, 40) as crowd:
        for client in crowd:
            client.sends(post("/size", b"x" * part, BODY_MOST))
        most = 0
        for _ in range(int(REQUEST_S) + 2):
            await asyncio.sleep(1)
            most = max(most, server.serving.peers.reserved)
            for client in crowd:
                client.sends(b"x")
            async with a_client(server.address) as new:
                async with asyncio.timeout(5):
                    assert await new.exchange(b"x" * 3_000_000) == (200, b"3000000")
        assert REQUESTS_MOST / 2 <= most <= REQUESTS_MOST
        assert await still_open(crowd) == 0
        assert server.serving.peers.reserved == 0


async def test_what_is_being_answered_keeps_its_room_and_is_not_cut() -> None:
    limits = ConnectionLimits(request_bytes=10 * 2**20, connections=6)
    async with a_server(limits) as server, strangers(server.address, 6) as crowd:
        for client in crowd:
            client.sends(post("/slow", b"x" * 3 * 2**20))
        await asyncio.sleep(2 * REQUEST_S)
        assert 9 * 2**20 <= server.serving.peers.reserved <= 10 * 2**20
        assert await still_open(crowd) == 3
        async with strangers(server.address, 3) as more:
            for client in more:
                client.sends(post("/slow", b"x"))
            await asyncio.sleep(0.1)
            async with a_client(server.address) as newest:  # there is nothing that could go
                assert not await newest.is_open()
            assert await still_open([*crowd, *more]) == 6


async def test_a_body_with_room_has_its_time_while_nobody_waits_for_room() -> None:
    async with a_server() as server, a_client(server.address) as client:
        client.sends(post("/size", b"", 2**20))
        for _ in range(10):
            client.sends(b"x" * (2**20 // 10 + 1))
            await asyncio.sleep(REQUEST_S / 11)
        assert await client.receives() == (200, b"1048576")


async def test_requests_that_come_ahead_wait_outside() -> None:
    async with a_server() as server, a_client(server.address) as client:
        much = post("/size", b"x" * 1000) * 20_000
        client.sends(post("/slow", b"") + much)
        await asyncio.sleep(1)
        buffered = client.writer.transport.get_write_buffer_size()
        assert buffered > len(much) / 2, "in our own hands still"


@pytest.mark.parametrize(
    "begun",
    [
        b"POST /framework HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"5\r\nabcde",
        post("/framework", b"x", 100),
        b"GET / HTTP/1.1\r\nHost: x",
        post("/size", b"x") * 3 + b"POST",
    ],
)
async def test_a_request_that_does_not_end_is_cut_anyone_reads_it(begun: bytes) -> None:
    async with a_server() as server, strangers(server.address, 3) as crowd:
        for second in range(int(REQUEST_S) + 1):
            for client in crowd:
                client.sends(b"" if second else begun)
            await asyncio.sleep(1)
        assert len(server.serving.peers) == 0


async def test_bodies_that_the_framework_reads_are_counted() -> None:
    head = b"POST /framework HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + b"x" * 2**20 + b"\r\n"
    limits = ConnectionLimits(request_bytes=10 * 2**20)
    async with a_server(limits) as server, strangers(server.address, 40) as crowd:
        most = 0
        for _ in range(7):
            for client in crowd:
                client.sends(head + chunk)
            head = b""
            for _ in range(100):
                await asyncio.sleep(0.001)
                most = max(most, server.serving.peers.reserved)
        assert 5 * 2**20 <= most <= 10 * 2**20
        async with a_client(server.address) as new:
            assert await new.exchange(b"x" * 1_000_000) == (200, b"1000000")


async def test_who_reads_no_answer_is_cut() -> None:
    async with a_server() as server, a_client(server.address) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(40):
            client.sends(post("/size", b"") * 20_000)
        await asyncio.sleep(2 * REQUEST_S)
        assert len(server.serving.peers) == 0


async def test_clients_that_speak_no_tls_count_and_go(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "x")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert_file, files.key_file)
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with (
        a_server(context=context) as server,
        strangers(server.address, CONNECTIONS_MOST + 50) as crowd,
    ):
        await asyncio.sleep(0.1)
        assert len(server.serving.peers) == CONNECTIONS_MOST
        async with a_client(server.address, trusting) as good:
            assert await good.exchange(b"123") == (200, b"3")
            for client in crowd[-20:]:
                client.sends(b"GET / HTTP/1.1\r\n\r\n")
            await asyncio.sleep(HANDSHAKE_S + SWEEP_S)
            assert await still_open(crowd) == 0
            assert len(server.serving.peers) == 1
