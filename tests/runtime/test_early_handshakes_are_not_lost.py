"""A client that speaks before the server has looked: nothing of its handshake is lost."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
import uvloop
from aiohttp import web

from tessera_runtime.http import server
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.http.tls import TlsSettings, open_tls
from tests.contract.certificates import Authority

Run = Callable[[Coroutine[None, None, bytes]], bytes]


def hello() -> bytes:
    """The first message of a client's handshake."""
    said = ssl.MemoryBIO()
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost").do_handshake()
    return said.read()


async def answered(folder: Path) -> bytes:
    """What the server says to a client that has connected and spoken in the kernel's backlog."""
    pair = Authority("early").server("localhost")
    files = TlsSettings(cert_file=folder / "crt", key_file=folder / "key")
    files.cert_file.write_bytes(pair.certificate)
    files.key_file.write_bytes(pair.key)
    async with (
        open_tls(files) as tls,
        server.serving(web.Application(), HttpSettings(), tls=tls) as served,
    ):
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(hello())
            client.settimeout(0)
            async with asyncio.timeout(5):
                return await asyncio.get_running_loop().sock_recv(client, 100)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_hello_that_came_first_is_answered(run: Run, tmp_path: Path) -> None:
    answer = run(answered(tmp_path))
    assert answer[:1] == b"\x16"  # a handshake record
