"""gRPC on a node's unix sockets, in bytes: the only module that knows grpc.

Messages are not read here. Every call has a deadline, and every failure is one of this library's
errors.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import grpc  # type: ignore[import-untyped]  # it has none
import grpc.aio  # type: ignore[import-untyped]  # it has none

from tessera_kubelet.errors import (
    CallFailed,
    CallTimedOut,
    GrpcCode,
    LinkLost,
    NodeError,
    SocketNotListening,
    SocketUnusable,
)

LONGEST_PATH = 107
"""Bytes of a socket's path at most, on Linux."""

_LONGEST_SENTENCE = 2000
"""Bytes of a failed call's message. gRPC writes one as three, and fails calls whose trailers pass
8 KiB."""
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}

Call = Callable[[bytes], Awaitable[bytes]]
"""Takes a call's message and gives the answer's. Raises CallFailed."""
Stream = Callable[[bytes], AsyncGenerator[bytes]]
"""Takes a call's message and gives the answers'. Raises CallFailed."""


class GrpcChannel:
    """A connection to the server at a socket."""

    def __init__(self, channel: Any, socket: Path) -> None:
        """Made by `open_channel`."""
        self._channel = channel
        self._socket = socket

    async def call(self, method: str, message: bytes, *, within_s: float | None) -> bytes:
        """The answer; `method` as "/service/Method", no deadline = for as long as it takes. Raises
        CallFailed, CallTimedOut, SocketNotListening, LinkLost."""
        try:
            async with asyncio.timeout(within_s):
                answer: bytes = await self._channel.unary_unary(method)(message)
        except TimeoutError as e:
            raise CallTimedOut(f"{method} was not answered within {within_s} s") from e
        except grpc.aio.AioRpcError as e:
            raise self._error(e, method) from e
        return answer

    async def stream(self, method: str, message: bytes) -> AsyncGenerator[bytes]:
        """The answers, until the peer ends them. Raises as `call`."""
        call = self._channel.unary_stream(method)(message)
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError as e:
            raise self._error(e, method) from e
        finally:
            call.cancel()

    def _error(self, e: Any, method: str) -> NodeError:
        words = e.details() or "no answer"
        match e.code():
            case grpc.StatusCode.UNAVAILABLE:
                return SocketNotListening(f"{self._socket}: {words.rpartition('error: ')[2]}")
            case grpc.StatusCode.CANCELLED:
                return LinkLost(f"{self._socket}: {method} was cut off")
            case code:
                return CallFailed(code.value[0], words)


@asynccontextmanager
async def open_channel(socket: Path, *, message_bytes: int) -> AsyncGenerator[GrpcChannel]:
    """Calls to the server at `socket`, while the block lasts. Nothing is dialled before the first
    call. `message_bytes`: the size of an answer at most."""
    options = [
        *_sizes(message_bytes),
        ("grpc.default_authority", "localhost"),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),  # or a failed dial would be remembered by all
    ]
    channel = grpc.aio.insecure_channel(_address(socket), options=options)
    try:
        yield GrpcChannel(channel, socket)
    finally:
        await channel.close()


@asynccontextmanager
async def open_server(
    socket: Path,
    service: str,
    calls: Mapping[str, Call],
    streams: Mapping[str, Stream],
    *,
    drain_s: float,
    message_bytes: int,
) -> AsyncGenerator[None]:
    """Answer at `socket` while the block lasts; a socket that lies there is replaced. `calls` and
    `streams` by method. At the end calls under way have `drain_s` seconds, streams end at once, and
    the socket is removed. Raises SocketUnusable."""
    serving = _Serving()
    server = grpc.aio.server(options=[*_sizes(message_bytes), ("grpc.so_reuseport", 0)])
    handlers = {
        **{name: grpc.unary_unary_rpc_method_handler(serving.of(c)) for name, c in calls.items()},
        **{
            name: grpc.unary_stream_rpc_method_handler(_streaming(s)) for name, s in streams.items()
        },
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    await asyncio.to_thread(_make_way, socket)
    try:
        server.add_insecure_port(_address(socket))
    except RuntimeError as e:
        raise SocketUnusable(
            f"{socket}: cannot be listened at; its folder must be there and writable"
        ) from e
    try:
        await server.start()
        yield
    finally:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(drain_s):
                    await serving.drained()
        finally:
            await server.stop(None)


class _Serving:
    """Counts the calls under way."""

    def __init__(self) -> None:
        self._under_way = 0
        self._none = asyncio.Event()
        self._none.set()
        self._ending = False

    async def drained(self) -> None:
        """Let no call begin, and wait until those under way have ended."""
        self._ending = True
        await self._none.wait()

    def of(self, call: Call) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def answer(message: bytes, context: Any) -> bytes:
            if self._ending:
                return await _abort(context, CallFailed(GrpcCode.UNAVAILABLE, "is about to end"))
            self._under_way += 1
            self._none.clear()
            context.add_done_callback(self._over)  # once the answer is sent, not only known
            try:
                return await call(message)
            except CallFailed as e:
                failed = e
            return await _abort(context, failed)

        return answer

    def _over(self, _: Any) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._none.set()


def _streaming(stream: Stream) -> Callable[[bytes, Any], AsyncGenerator[bytes]]:
    async def answers(message: bytes, context: Any) -> AsyncGenerator[bytes]:
        try:
            async for answer in stream(message):
                yield answer
        except CallFailed as e:
            failed = e
        else:
            return
        await _abort(context, failed)

    return answers


async def _abort(context: Any, failed: CallFailed) -> bytes:
    words = failed.message.encode()[:_LONGEST_SENTENCE].decode(errors="ignore")
    await context.abort(_CODES[failed.code], words)
    raise AssertionError("abort raises")


def _make_way(socket: Path) -> None:
    """Remove a socket that an earlier process left. Raises SocketUnusable."""
    longest = len(os.fsencode(socket))
    if longest > LONGEST_PATH:
        raise SocketUnusable(
            f"{socket}: has {longest} bytes; a socket's path has {LONGEST_PATH} at most"
        )
    try:
        if not stat.S_ISSOCK(socket.lstat().st_mode):
            raise SocketUnusable(f"{socket}: lies there and is no socket; remove it")
        socket.unlink()
    except FileNotFoundError:
        return
    except OSError as e:
        raise SocketUnusable(f"{socket}: {e.strerror or e}") from e


def _address(socket: Path) -> str:
    return f"unix:{quote(str(socket.absolute()))}"


def _sizes(message_bytes: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", message_bytes),
        ("grpc.max_send_message_length", message_bytes),
    ]
