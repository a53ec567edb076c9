"""Services run on uvloop, whose transports are not asyncio's: the same promises, in real time."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import uvloop

from tessera_runtime.http.connections import ConnectionLimits
from tessera_runtime.http.fast_path import Answer, Reply
from tessera_runtime.http.server import HttpSettings, application, serving
from tessera_runtime.http.tls import open_tls
from tests.runtime.strangers import Client, a_client, post, still_open, strangers
from tests.runtime.test_servers_answer import write_certificate

LONG_S = 60.0


async def later(body: bytes) -> Reply:
    await asyncio.sleep(0.01)
    return Reply(b"%d" % len(body))


ANSWERS: dict[str, Answer] = {"/size": lambda body: Reply(b"%d" % len(body)), "/later": later}


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def exchange(client: Client, size: int, path: str) -> None:
    async with asyncio.timeout(LONG_S):
        assert await client.exchange(b"x" * size, path) == (200, b"%d" % size)


@pytest.mark.parametrize("patient", [False, True])
def test_many_are_answered_over_tls(tmp_path: Path, *, patient: bool) -> None:
    async def main() -> None:
        app, settings = application(HttpSettings()), HttpSettings(stop_s=0.1)
        async with (
            open_tls(write_certificate(tmp_path, "x")) as tls,
            serving(app, settings, tls=tls, answers=ANSWERS, patient=patient) as served,
            strangers((served.host, served.port), 3),
        ):

            async def one(path: str) -> None:
                for size in (1, 300_000, 2_000_000):
                    address = (served.host, served.port)
                    async with a_client(address, trusting()) as client:
                        await exchange(client, size, path)
                        await exchange(client, 1, path)

            async with asyncio.TaskGroup() as group:
                for path in [*ANSWERS] * 5:
                    group.create_task(one(path), name=path)

    uvloop.run(main())


def test_strangers_are_bounded() -> None:
    async def main() -> None:
        limits = ConnectionLimits(connections=10, request_bytes=2**20, request_s=5)
        settings = HttpSettings(limits=limits, stop_s=0.1)
        async with (
            serving(application(settings), settings, answers=ANSWERS) as served,
            strangers((served.host, served.port), 30) as crowd,
        ):
            for client in crowd:
                client.sends(post("/size", b"x" * 100_000, 110_000))
            async with a_client((served.host, served.port)) as good:
                await exchange(good, 900_000, "/size")
                await exchange(good, 10, "/size")
            async with asyncio.timeout(LONG_S):
                while await still_open(crowd):
                    await asyncio.sleep(0.05)

    uvloop.run(main())


def test_those_that_send_ahead_wait_and_go_on() -> None:
    async def main() -> None:
        settings = HttpSettings(stop_s=0.1)
        async with (
            serving(application(settings), settings, answers=ANSWERS) as served,
            a_client((served.host, served.port)) as client,
        ):
            client.sends((post("/later", b"") + post("/size", b"x" * 1000)) * 100)
            async with asyncio.timeout(LONG_S):
                for _ in range(100):
                    assert await client.receives() == (200, b"0")
                    assert await client.receives() == (200, b"1000")
            client.sends(b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(LONG_S):
                assert (await client.receives())[0] == 404
                assert await client.reader.read() == b""

    uvloop.run(main())


def test_who_speaks_no_tls_is_cut(tmp_path: Path) -> None:
    async def main() -> None:
        settings = HttpSettings(limits=ConnectionLimits(connections=10), stop_s=0.1)
        async with (
            open_tls(write_certificate(tmp_path, "x")) as tls,
            serving(application(settings), settings, tls=tls, answers=ANSWERS) as served,
            strangers((served.host, served.port), 30) as crowd,
        ):
            async with a_client((served.host, served.port), trusting()) as good:
                await exchange(good, 900_000, "/size")
            for client in crowd:
                client.sends(b"GET / HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(LONG_S):
                while await still_open(crowd):
                    await asyncio.sleep(0.05)

    uvloop.run(main())
