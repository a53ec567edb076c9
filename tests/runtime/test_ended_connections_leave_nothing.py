"""Connections that ended are freed at once, and do not wait for the garbage collector: it counts
objects, and one connection may hold MiB."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest
from aiohttp.web_protocol import RequestHandler

from tessera_runtime.http.connections import ConnectionLimits, ServerConnection
from tessera_runtime.http.handshake import HANDSHAKE_S
from tests.runtime.strangers import a_client, post
from tests.runtime.test_servers_answer import write_certificate
from tests.runtime.test_strangers_keep_nobody_waiting import Server, a_server

pytestmark = pytest.mark.looptime
ROUNDS = 5


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def left_behind() -> list[object]:
    """What exists of connections, read by us or by the framework."""
    return [
        thing for thing in gc.get_objects() if isinstance(thing, ServerConnection | RequestHandler)
    ]


async def is_unknown(server: Server) -> None:
    async with a_client(server.address) as client:
        client.sends(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.receives())[0] == 404


async def is_inflated(server: Server) -> None:
    async with a_client(server.address) as client:
        client.sends(b"GET /framework HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n\r\n")
        assert (await client.receives())[0] == 415


async def breaks_in_its_body(server: Server) -> None:
    async with a_client(server.address) as client:
        client.sends(post("/framework", b"x" * 1000, length=2000))
        await asyncio.sleep(0.1)


async def never_shakes_hands(server: Server) -> None:
    async with a_client(server.address) as client:
        client.sends(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("end", [is_unknown, is_inflated, breaks_in_its_body])
async def test_of_plain_connections(end: Callable[[Server], Coroutine[None, None, None]]) -> None:
    async with a_server() as server:
        for _ in range(ROUNDS):
            await end(server)
        await asyncio.sleep(1)
        assert left_behind() == []


async def test_of_handshakes_that_others_push_out(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "x")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert_file, files.key_file)
    async with a_server(ConnectionLimits(connections=1), context) as server:
        for _ in range(ROUNDS):
            await never_shakes_hands(server)
        await asyncio.sleep(HANDSHAKE_S + 1)
        assert len(left_behind()) <= 1  # asyncio may hold the latest, until the next comes
