"""Calls over one connection: ttrpc, unary calls only.

A message is a big-endian u32 length, a u32 stream id (odd, growing), a u8 type, u8 flags, and the
length's bytes: a Request or a Response. A server answers each call at once, in the order they
came, so a handler must not wait for anything; answers to a caller may come in any order.
Retries are the caller's business.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import DecodeError

from tessera_kubelet.errors import (
    CallFailed,
    CallTimedOut,
    GrpcCode,
    LinkGarbled,
    LinkLost,
    Oversized,
)
from tessera_kubelet.nri.mux import Trunk
from tessera_kubelet.proto.ttrpc_pb2 import Request, Response, Status

LONGEST_MESSAGE = 4 << 20
"""Bytes, without the header."""

_HEADER = struct.Struct(">IIBB")
_REMOTE_OPEN = 2
_log = logging.getLogger("tessera_kubelet.ttrpc")

Handler = Callable[[bytes], bytes]
"""Takes a call's payload and gives the answer's. Raises CallFailed."""


class TtrpcMessageKind(IntEnum):
    """What a message is. Others are skipped."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


class TtrpcMessage(NamedTuple):
    """A message as it came in."""

    stream: int
    kind: int
    flags: int
    payload: bytes


class Messages:
    """Cuts a stream of bytes into messages, wherever the stream was split."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[TtrpcMessage]:
        """The messages that `data` completes. Raises LinkGarbled."""
        self._held += data
        while len(self._held) >= _HEADER.size:
            length, stream, kind, flags = _HEADER.unpack_from(self._held)
            if length > LONGEST_MESSAGE:
                raise LinkGarbled(
                    f"a message of {length} bytes came in; at most {LONGEST_MESSAGE} are allowed"
                )
            end = _HEADER.size + length
            if len(self._held) < end:
                return
            payload = bytes(self._held[_HEADER.size : end])
            del self._held[:end]
            yield TtrpcMessage(stream, kind, flags, payload)


def message(stream: int, kind: TtrpcMessageKind, payload: bytes) -> bytes:
    """A message as it goes out. Raises Oversized."""
    if len(payload) > LONGEST_MESSAGE:
        raise Oversized(f"a message of {len(payload)} bytes; at most {LONGEST_MESSAGE} are allowed")
    return _HEADER.pack(len(payload), stream, kind, 0) + payload


class Client:
    """The calling end of a connection."""

    def __init__(self, trunk: Trunk, connection: int) -> None:
        """Calls can be made once the trunk runs."""
        self._channel = trunk.open(connection, self)
        self._messages = Messages()
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._next = 1
        self._lost: LinkLost | None = None

    async def call(self, service: str, method: str, payload: bytes, *, within_s: float) -> bytes:
        """The answer's payload. Raises CallFailed, CallTimedOut, LinkLost, Oversized."""
        if self._lost is not None:
            raise self._lost
        request = Request(
            service=service, method=method, payload=payload, timeout_nano=int(within_s * 1e9)
        )
        out = message(self._next, TtrpcMessageKind.REQUEST, request.SerializeToString())
        stream, self._next = self._next, self._next + 2
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[stream] = answer
        self._channel.send(out)
        try:
            async with asyncio.timeout(within_s):
                await self._channel.flushed()
                response = await answer
        except TimeoutError as e:
            raise CallTimedOut(f"{method} was not answered within {within_s} s") from e
        finally:
            del self._waiting[stream]
            if not (answer.cancel() or answer.cancelled()):
                answer.exception()  # taken note of, or asyncio would complain of it later
        if response.status.code:
            raise CallFailed(response.status.code, response.status.message)
        return response.payload

    def receive(self, data: bytes) -> None:
        """Resolve the calls that wait for these answers; late answers are dropped. Raises
        LinkGarbled."""
        for came in self._messages.feed(data):
            answer = self._waiting.get(came.stream)
            if answer is None or answer.done():
                continue
            if came.kind != TtrpcMessageKind.RESPONSE:
                raise LinkGarbled(f"a message of type {came.kind} came in place of an answer")
            try:
                answer.set_result(Response.FromString(came.payload))
            except DecodeError as e:
                raise LinkGarbled(f"an answer is not a Response: {e}") from e

    def lost(self, error: LinkLost) -> None:
        """Fail all calls that wait, and every later one."""
        self._lost = error
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)


class Server:
    """The answering end of a connection."""

    def __init__(
        self, trunk: Trunk, connection: int, service: str, handlers: Mapping[str, Handler]
    ) -> None:
        """`handlers` by method."""
        self._channel = trunk.open(connection, self)
        self._messages = Messages()
        self._service = service
        self._handlers = handlers
        self._last = 0

    def receive(self, data: bytes) -> None:
        """Answer each call that `data` completes. Raises LinkGarbled."""
        for came in self._messages.feed(data):
            if came.kind not in (TtrpcMessageKind.REQUEST, TtrpcMessageKind.DATA):
                continue
            try:
                answer = Response(payload=self._answer(came))
            except CallFailed as e:
                answer = Response(status=Status(code=e.code, message=e.message))
            self._send(came.stream, answer)

    def lost(self, error: LinkLost) -> None:
        """Nothing to do: a server has no calls that wait."""

    def _answer(self, came: TtrpcMessage) -> bytes:
        if came.kind == TtrpcMessageKind.DATA or came.flags & _REMOTE_OPEN:
            raise CallFailed(GrpcCode.UNIMPLEMENTED, "streams are not served here, only calls")
        if came.stream % 2 == 0 or came.stream <= self._last:
            raise CallFailed(
                GrpcCode.INVALID_ARGUMENT,
                f"stream id {came.stream} is not odd and greater than {self._last}",
            )
        self._last = came.stream
        try:
            request = Request.FromString(came.payload)
        except DecodeError as e:
            raise CallFailed(GrpcCode.INVALID_ARGUMENT, f"not a Request: {e}") from e
        handler = self._handlers.get(request.method) if request.service == self._service else None
        if handler is None:
            raise CallFailed(
                GrpcCode.UNIMPLEMENTED, f"{request.service}/{request.method} is not served here"
            )
        return self._handle(request, handler)

    def _handle(self, request: Request, handler: Handler) -> bytes:
        try:
            return handler(request.payload)
        except CallFailed:
            raise
        except DecodeError as e:
            message = f"not a request for {request.method}: {e}"
            raise CallFailed(GrpcCode.INVALID_ARGUMENT, message) from e
        except Exception as e:
            _log.exception("a call failed", extra={"method": request.method})
            raise CallFailed(GrpcCode.INTERNAL, f"{type(e).__name__}: {e}") from e

    def _send(self, stream: int, answer: Response) -> None:
        try:
            out = message(stream, TtrpcMessageKind.RESPONSE, answer.SerializeToString())
        except Oversized as e:
            status = Status(code=GrpcCode.RESOURCE_EXHAUSTED, message=str(e))
            out = message(
                stream, TtrpcMessageKind.RESPONSE, Response(status=status).SerializeToString()
            )
        self._channel.send(out)
