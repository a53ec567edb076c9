"""Answers to plain requests, read and written in a few lines of Python instead of a web framework.

A plain request is a POST over HTTP/1.1 to one of the known paths with a Content-Length and nothing
unusual. kube-scheduler and the API server send nothing else, several for each pod, and open a
connection for many of them. Whatever is not plain (other methods and paths, chunked bodies,
`FastConnection`, `Expect`, anything malformed) is handed to the framework with its connection,
which ends there: so nothing is half understood. Refused is what is too large, headers or body, and
what takes too long or too much (`tessera_runtime.http.connections`).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Final, cast

from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.http.connections import (
    SWEEP_S,
    ConnectionLimits,
    Connections,
    ConnectionStage,
    ServerConnection,
)
from tessera_runtime.http.fair_queue import FairQueue
from tessera_runtime.http.fast_request import HEAD_MOST, HEADERS_MOST, TOO_LONG, FastRequest, read
from tessera_runtime.http.handover import Handover
from tessera_runtime.http.handshake import Handshakes

log = logs.named("tessera.http")

AHEAD_MOST: Final = 16 * 1024
"""Bytes of further requests at which no more are taken while one is answered."""
STRANGER_BODY_MOST: Final = 64 * 1024
"""Bytes of a body that is taken from a client without a certificate, where certificates are asked
for."""


class Reply(Struct, frozen=True):
    """An answer: its body, status and content type."""

    body: bytes
    status: int = 200
    """Of HTTP, such as 200."""
    kind: str = "application/json"


Answer = Callable[[bytes], Reply | Awaitable[Reply]]
"""From a request's body to its answer, at once or later."""


def text_reply(text: str, status: int) -> Reply:
    """A reply whose body is a sentence."""
    return Reply(text.encode(), status, "text/plain; charset=utf-8")


class BodyLimits(Struct, frozen=True):
    """How many bytes the body of one request may have."""

    most: int
    strangers: int | None = None
    """The same for clients without a certificate, where certificates are asked for."""

    def of(self, peer: ServerConnection) -> int:
        """The bound for this client."""
        return self.most if self.strangers is None or peer.known else self.strangers

    def refusal(self, request: FastRequest, most: int) -> Reply:
        """The answer to a request that is too large, for a client whose bound is `most`."""
        if request is TOO_LONG:
            return text_reply(
                f"headers: more than {HEAD_MOST} bytes or {HEADERS_MOST} lines: send less\n", 431
            )
        than = "" if most == self.most else " without a client certificate that is known here"
        return text_reply(f"body: {request.length} bytes: at most {most} are taken{than}\n", 413)


async def replied(answer: Answer, body: bytes) -> Reply:
    """What is answered, now or later; a failure is logged and answered 500."""
    try:
        made = answer(body)
        return made if isinstance(made, Reply) else await made
    except Exception as e:  # noqa: BLE001  (a request that fails must not end the server)
        return _failed(e)


class FastServer:
    """The answers of one server, and its open connections."""

    def __init__(
        self,
        answers: Mapping[str, Answer],
        others: Callable[[], asyncio.Protocol],
        bodies: BodyLimits,
        group: asyncio.TaskGroup,
        peers: Connections,
        line: FairQueue | None = None,
    ) -> None:
        """`others` makes what takes over connections with requests that are not plain; with a
        `line` requests wait there for their turn."""
        self.line = line
        self.answers = {path.encode(): answer for path, answer in answers.items()}
        self.others = others
        self.bodies = bodies
        self.peers = peers
        self._group = group
        self.ending = False
        """True once each connection ends with the answer that is under way."""
        self.over = False
        """True once nothing more is answered."""
        self._tasks: set[asyncio.Task[None]] = set()

    def connection(self) -> asyncio.Protocol:
        """For the event loop, which calls it for each new connection."""
        return FastConnection(self)

    @asynccontextmanager
    async def accepting(
        self, listening: socket.socket, backlog: int, context: ssl.SSLContext | None = None
    ) -> AsyncGenerator[None]:
        """Take connections until left; with a `context` those that speak TLS."""
        if context is None:
            server = await asyncio.get_running_loop().create_server(
                self.connection, sock=listening, backlog=backlog
            )
            try:
                yield
            finally:
                server.close()
            return
        listening.settimeout(0)
        listening.listen(backlog)
        inside = partial(FastConnection, self)
        shaking = Handshakes(listening, context, self.peers, inside, self.later)
        taking = self._group.create_task(shaking.take(), name="connections over TLS")
        taking.add_done_callback(lambda _: listening.close())  # the event loop reads it until then
        try:
            yield
        finally:
            taking.cancel()

    def later(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Go on with what takes time."""
        task = self._group.create_task(work, name="request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self, stop_s: float) -> None:
        """Let open requests end for so many seconds, and cut them then."""
        self.ending = True
        self.peers.close_idle()
        with suppress(TimeoutError):
            async with asyncio.timeout(stop_s):
                await self.peers.empty.wait()
        self.over = True
        for task in tuple(self._tasks):
            task.cancel()
        self.peers.cut_all()


class FastConnection(asyncio.Protocol):
    """One connection, until something unusual comes."""

    def __init__(self, serving: FastServer, peer: ServerConnection | None = None) -> None:
        """Use `FastServer.connection`."""
        self._serving = serving
        self._peers = serving.peers
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._most = 0
        """Bytes that a body of this client may have."""
        self._buffer = bytearray()
        self._busy = self._full = self._deaf = self._waits = self._paused = False

    # called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        made = cast("asyncio.Transport", transport)
        peer = self._peer = self._peer or self._peers.enter()
        if peer is None or self._serving.over:
            made.abort()
        if peer is not None:
            self._transport = made
            peer.cut, peer.close = made.abort, made.close
            peer.known = bool(made.get_extra_info("peercert"))
            self._most = self._serving.bodies.of(peer)
            self._come_to_rest()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._deaf:
            return
        self._buffer += data
        self._go_on()
        if self._buffer or self._paused:
            self._owe_the_rest()
            self._read_or_wait()

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._full = True

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._full = False
        if not self._busy:
            self._come_to_rest()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BaseProtocol."""
        del exc
        self._transport = None
        self._buffer.clear()
        if self._peer is not None:
            self._peers.leave(self._peer)

    # -- requests

    @property
    def _open(self) -> asyncio.Transport | None:
        """The transport while it can be used."""
        transport = self._transport
        return None if transport is None or transport.is_closing() else transport

    def _owe_the_rest(self) -> None:
        """A request has begun to come that cannot be answered yet."""
        peer = self._peer
        if self._buffer and peer is not None and peer.stage is ConnectionStage.IDLE:
            self._peers.enters(peer, ConnectionStage.COMING)

    def _read_or_wait(self) -> None:
        ahead = (self._busy or self._full) and len(self._buffer) > AHEAD_MOST
        waits = ahead or self._waits
        if waits == self._paused:
            return
        transport = self._open
        if transport is not None:
            self._paused = waits
            if waits:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _go_on(self) -> None:
        """Answer the next request, if it has come whole."""
        transport, peer = self._open, self._peer
        if transport is None or peer is None or not self._buffer or self._serving.over:
            return
        request = None if self._busy or self._full or self._waits else read(self._buffer)
        if request is None:
            return
        answer, end = self._serving.answers.get(request.path), request.end
        if request.length > self._most or request is TOO_LONG:
            self._refuse(self._serving.bodies.refusal(request, self._most))
        elif answer is None:
            self._hand_over(transport, peer)
        elif len(self._buffer) >= end:
            body = bytes(memoryview(self._buffer)[request.start : end])
            del self._buffer[:end]
            self._begin(answer, body, peer)
        else:
            self._owe_the_rest()
            self._waits = not self._peers.reserve(peer, end, self._has_room)

    def _has_room(self) -> None:
        self._waits = False
        self._read_or_wait()

    def _begin(self, answer: Answer, body: bytes, peer: ServerConnection) -> None:
        self._busy = True
        self._peers.enters(peer, ConnectionStage.WHOLE)
        if self._serving.line is None:
            self._answer(answer, body)
        else:
            self._serving.line.join(partial(self._answer, answer, body))

    def _answer(self, answer: Answer, body: bytes) -> None:
        if self._transport is None or self._serving.over:
            return
        try:
            made = answer(body)
        except Exception as e:  # noqa: BLE001  (a request that fails must not end the server)
            made = _failed(e)
        if isinstance(made, Reply):
            self._write(made)
        else:
            _ = self._serving.later(self._answer_later(made))

    async def _answer_later(self, coming: Awaitable[Reply]) -> None:
        try:
            reply = await coming
        except Exception as e:  # noqa: BLE001  (a request that fails must not end the server)
            reply = _failed(e)
        self._write(reply)

    def _write(self, reply: Reply) -> None:
        self._busy = False
        transport, peer = self._open, self._peer
        if transport is None or peer is None:
            return
        transport.write(_head(reply) + b"\r\n" + reply.body)
        peer.served = True
        self._come_to_rest()
        if self._serving.ending:
            transport.close()

    def _come_to_rest(self) -> None:
        """Nothing is being answered: wait for the client, or go on with what came meanwhile."""
        peer = self._peer
        if peer is None:
            return
        owes = self._buffer or self._full or self._deaf
        self._peers.enters(peer, ConnectionStage.COMING if owes else ConnectionStage.IDLE)
        if peer.room:
            self._peers.release(peer)
        if self._buffer:
            self._loop.call_soon(self._go_on)  # others in between, however much came at once
        if self._buffer or self._paused:
            self._read_or_wait()

    def _refuse(self, reply: Reply) -> None:
        """Answer, and take nothing more in; the client has the time of a request to hang up."""
        self._deaf = True
        self._buffer.clear()
        if self._open is not None:
            self._open.write(_head(reply) + b"Connection: close\r\n\r\n" + reply.body)
        self._come_to_rest()

    def _hand_over(self, transport: asyncio.Transport, peer: ServerConnection) -> None:
        self._owe_the_rest()
        self._transport = self._peer = None
        bodies = self._serving.bodies
        most = None if bodies.of(peer) == bodies.most else HEAD_MOST + bodies.of(peer)
        other = Handover(self._peers, peer, self._serving.others(), most)
        other.begin(transport, bytes(self._buffer))
        self._buffer.clear()


def _head(reply: Reply) -> bytes:
    return b"%b%d\r\n" % (_start(reply.status, reply.kind), len(reply.body))


@lru_cache(64)
def _start(status: int, kind: str) -> bytes:
    phrase = HTTPStatus(status).phrase
    return f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {kind}\r\nContent-Length: ".encode()


def _failed(error: Exception) -> Reply:
    log.alert("request failed", exc=error)
    return text_reply("it failed: see the log\n", 500)


@asynccontextmanager
async def connections(
    answers: Mapping[str, Answer], others: Callable[[], asyncio.Protocol], *,
    bodies: BodyLimits, limits: ConnectionLimits, idle_s: float, stop_s: float,
    line: FairQueue | None = None,
) -> AsyncGenerator[FastServer]:  # fmt: skip
    """What a server makes its connections with. Leaving lets open requests end for `stop_s` seconds
    and closes everything; idle connections are closed after `idle_s`. With a `line`
    requests wait there for their turn."""
    peers = Connections(limits, idle_s, asyncio.get_running_loop().time)
    async with asyncio.TaskGroup() as group:
        serving = FastServer(answers, others, bodies, group, peers, line)
        sweeping = group.create_task(_sweep(peers), name="slow and idle connections")
        try:
            yield serving
        finally:
            sweeping.cancel()
            await serving.end(stop_s)


async def _sweep(peers: Connections) -> None:
    while True:
        await peers.to_sweep.wait()
        await asyncio.sleep(SWEEP_S)
        peers.sweep()
