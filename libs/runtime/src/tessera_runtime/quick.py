"""Answers to plain requests, read and written in a few lines of Python instead of a web framework.

A plain request is a POST over HTTP/1.1 to one of the known paths with a Content-Length and nothing
unusual. kube-scheduler and the API server send nothing else, several for each pod, and open a
connection for many of them. Whatever is not plain (other methods and paths, chunked or too large
bodies, `Connection`, `Expect`, anything malformed) is handed to the framework with its connection,
which stays there: so nothing is refused here, and nothing is half understood.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, cast

from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.plain import read
from tessera_runtime.turns import Line

log = logs.named("tessera.http")

AHEAD_MOST: Final = 256 * 1024
"""Bytes of further requests that are taken while one is answered."""
_WORDS: Final = {200: "OK", 400: "Bad Request", 500: "Internal Server Error",
                 503: "Service Unavailable"}  # fmt: skip


class Reply(Struct, frozen=True):
    """An answer."""

    body: bytes
    status: int = 200
    """200, 400, 500 or 503."""
    kind: str = "application/json"


Answer = Callable[[bytes], Reply | Awaitable[Reply]]
"""From a request's body to its answer, at once or later."""


def sentence(text: str, status: int) -> Reply:
    """A sentence."""
    return Reply(text.encode(), status, "text/plain; charset=utf-8")


async def replied(answer: Answer, body: bytes) -> Reply:
    """What is answered, now or later; a failure is logged and answered 500."""
    try:
        made = answer(body)
        return made if isinstance(made, Reply) else await made
    except Exception as e:  # noqa: BLE001  (a request that fails must not end the server)
        return _failed(e)


class Serving:
    """The open connections of one server."""

    def __init__(
        self, answers: Mapping[str, Answer], others: Callable[[], asyncio.Protocol], body_most: int,
        group: asyncio.TaskGroup, line: Line | None = None,
    ) -> None:  # fmt: skip
        """`others` makes what takes over connections with requests that are not plain; with a
        `line` requests wait there for their turn."""
        self.line = line
        self.answers = {path.encode(): answer for path, answer in answers.items()}
        self.others = others
        self.body_most = body_most
        self._group = group
        self._connections: set[Connection] = set()
        self._empty = asyncio.Event()
        self.over = False
        """True once nothing more is answered."""
        self._tasks: set[asyncio.Task[None]] = set()

    def connection(self) -> Connection:
        """For the event loop, which calls it for each new connection."""
        made = Connection(self)
        self._connections.add(made)
        self._empty.clear()
        return made

    def gone(self, connection: Connection) -> None:
        """It is closed, or somebody else's now."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def later(self, work: Coroutine[None, None, None]) -> None:
        """Go on with an answer that takes time."""
        task = self._group.create_task(work, name="request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close_idle(self, since: float) -> None:
        """Close connections that have been idle since that loop time."""
        for connection in tuple(self._connections):
            connection.close_if_idle(since)

    async def end(self, stop_s: float) -> None:
        """Let open requests end for so many seconds, and cut them then."""
        self.close_idle(float("inf"))
        if self._connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(stop_s):
                    await self._empty.wait()
        self.over = True
        for task in tuple(self._tasks):
            task.cancel()
        for connection in tuple(self._connections):
            connection.cut()


class Connection(asyncio.Protocol):
    """One connection, until something unusual comes."""

    def __init__(self, serving: Serving) -> None:
        """Use `Serving.connection`."""
        self._serving = serving
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._busy = self._full = self._ending = self._paused = False
        self._heard = self._loop.time()

    # -- told by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        if self._serving.over:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._heard = self._loop.time()
        self._buffer += data
        self._go_on()
        transport, waits = self._open, self._busy or self._full
        if waits and len(self._buffer) > AHEAD_MOST and transport and not self._paused:
            self._paused = True
            transport.pause_reading()

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._full = True

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._full = False
        self._listen()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BaseProtocol."""
        del exc
        self._transport = None
        self._serving.gone(self)

    # -- the end

    def close_if_idle(self, since: float) -> None:
        """Close it if nothing was heard since; after the answer that is under way if `since` is
        for ever."""
        if self._busy:
            self._ending = since == float("inf")
        elif self._heard < since and self._transport is not None:
            self._transport.close()

    def cut(self) -> None:
        """Close it, whatever it does."""
        if self._transport is not None:
            self._transport.abort()

    # -- requests

    @property
    def _open(self) -> asyncio.Transport | None:
        """The transport while it can be used."""
        transport = self._transport
        return None if transport is None or transport.is_closing() else transport

    def _listen(self) -> None:
        transport = self._open
        if self._paused and transport is not None:
            self._paused = False
            transport.resume_reading()
        self._go_on()

    def _go_on(self) -> None:
        while self._buffer and not (self._busy or self._full or self._serving.over):
            transport, request = self._open, read(self._buffer)
            if transport is None or request is None:
                return
            answer = self._serving.answers.get(request.path) if request.known else None
            if answer is None or request.length > self._serving.body_most:
                self._hand_over(transport)
                return
            if len(self._buffer) < request.end:
                return
            body = bytes(memoryview(self._buffer)[request.start : request.end])
            del self._buffer[: request.end]
            line = self._serving.line
            if line is None:
                self._answer(answer, body)
            else:
                self._busy = True
                line.join(partial(self._answer_in_turn, answer, body))

    def _answer_in_turn(self, answer: Answer, body: bytes) -> None:
        self._busy = False
        if self._open is None or self._serving.over:
            return
        self._answer(answer, body)
        if not self._busy:
            self._answered()

    def _answer(self, answer: Answer, body: bytes) -> None:
        try:
            made = answer(body)
        except Exception as e:  # noqa: BLE001  (a request that fails must not end the server)
            made = _failed(e)
        if isinstance(made, Reply):
            self._write(made)
        else:
            self._busy = True
            self._serving.later(self._answer_later(made))

    async def _answer_later(self, coming: Awaitable[Reply]) -> None:
        try:
            reply = await coming
        except Exception as e:  # noqa: BLE001  (a request that fails must not end the server)
            reply = _failed(e)
        self._busy = False
        self._write(reply)
        self._answered()

    def _answered(self) -> None:
        self._heard = self._loop.time()
        transport = self._open
        if transport is None:
            return
        if self._ending:
            transport.close()
            return
        self._listen()

    def _write(self, reply: Reply) -> None:
        transport = self._open
        if transport is not None:
            head = (
                f"HTTP/1.1 {reply.status} {_WORDS[reply.status]}\r\n"
                f"Content-Type: {reply.kind}\r\nContent-Length: {len(reply.body)}\r\n\r\n"
            )
            transport.write(head.encode() + reply.body)

    def _hand_over(self, transport: asyncio.Transport) -> None:
        other = self._serving.others()
        self._transport = None
        self._serving.gone(self)
        transport.set_protocol(other)
        other.connection_made(transport)
        other.data_received(bytes(self._buffer))


def _failed(error: Exception) -> Reply:
    log.alarm("request failed", exc=error)
    return sentence("it failed: see the log\n", 500)


@asynccontextmanager
async def connections(
    answers: Mapping[str, Answer], others: Callable[[], asyncio.Protocol], *,
    body_most: int, idle_s: float, stop_s: float, patient: bool = False,
) -> AsyncGenerator[Serving]:  # fmt: skip
    """What a server makes its connections with. Leaving lets open requests end for `stop_s` seconds
    and closes everything; idle connections are closed after `idle_s`. Requests to a `patient` one
    let those to others go first."""
    async with asyncio.TaskGroup() as group:
        serving = Serving(answers, others, body_most, group, Line() if patient else None)
        sweeping = group.create_task(_sweep(serving, idle_s), name="idle connections")
        try:
            yield serving
        finally:
            sweeping.cancel()
            await serving.end(stop_s)


async def _sweep(serving: Serving, idle_s: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(idle_s / 4)
        serving.close_idle(loop.time() - idle_s)
