"""A patient server of a process answers one request in each turn of the loop, after all that came
for the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from tessera_runtime.http.fast_path import Answer, Reply
from tessera_runtime.http.server import HttpServer, HttpSettings, application, serving

SETTINGS = HttpSettings(stop_s=0.5)
LONG_S = 60.0
MANY = 20


@asynccontextmanager
async def a_server(answers: Mapping[str, Answer], *, patient: bool) -> AsyncGenerator[HttpServer]:
    app = application(SETTINGS)
    async with serving(app, SETTINGS, answers=answers, patient=patient) as served:
        yield served


@asynccontextmanager
async def a_connection(
    served: HttpServer,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(served.host, served.port)
    try:
        yield reader, writer
    finally:
        writer.close()


def post(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def received(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(LONG_S):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        return await reader.readexactly(length)


async def test_others_are_answered_before_those_that_wait() -> None:
    order: list[bytes] = []

    def note(body: bytes) -> Reply:
        order.append(body)
        return Reply(body)

    async with AsyncExitStack() as stack:
        patient = await stack.enter_async_context(a_server({"/": note}, patient=True))
        other = await stack.enter_async_context(a_server({"/": note}, patient=False))
        calls = [await stack.enter_async_context(a_connection(patient)) for _ in range(MANY)]
        calls.append(await stack.enter_async_context(a_connection(other)))
        for i, (_, writer) in enumerate(calls):
            writer.write(post(b"other" if i == MANY else b"%d" % i))
        answers = [await received(reader) for reader, _ in calls]
    assert answers == [*(b"%d" % i for i in range(MANY)), b"other"]
    assert order.index(b"other") < MANY / 2  # it came last


async def test_requests_of_one_connection_stay_in_order() -> None:
    async def later(body: bytes) -> Reply:
        await asyncio.sleep(0)
        return Reply(body)

    def either(body: bytes) -> Reply:
        return Reply(body)

    for answer in (either, later):
        async with (
            a_server({"/": answer}, patient=True) as served,
            a_connection(served) as (reader, writer),
        ):
            writer.write(b"".join(post(b"%d" % i) for i in range(MANY)))
            assert [await received(reader) for _ in range(MANY)] == [b"%d" % i for i in range(MANY)]


async def test_one_that_fails_or_hangs_up_keeps_nobody_waiting() -> None:
    def fails(body: bytes) -> Reply:
        if body == b"bad":
            raise RuntimeError("a bug")
        return Reply(body)

    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(a_server({"/": fails}, patient=True))
        calls = [await stack.enter_async_context(a_connection(served)) for _ in range(4)]
        for body, (_, writer) in zip((b"bad", b"gone", b"a", b"b"), calls, strict=True):
            writer.write(post(body))
        calls[1][1].transport.abort()
        assert b"failed" in await received(calls[0][0])
        assert [await received(reader) for reader, _ in calls[2:]] == [b"a", b"b"]
