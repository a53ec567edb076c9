"""Several connections over one unix socket, as NRI cuts them into frames.

A frame is a big-endian u32 connection id, a u32 length and that many bytes. Frames carry no
meaning: a message may come in many of them, and several messages in one. Nothing is queued here:
what comes in is handed on at once. Nothing more is read while more than UNREAD bytes wait for the
peer to take them, so memory stays bounded; a peer that takes nothing meanwhile is cut off.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import NoReturn, Protocol

from tessera_kubelet.background import open_tasks
from tessera_kubelet.errors import LinkGarbled, LinkLost, LinkStuck, NodeError

LONGEST_PAYLOAD = 10 + (4 << 20)
"""Bytes: the longest message with its header."""
FIRST_PAYLOAD = 4096
"""Bytes. NRI's own implementation takes a frame only whole, and into a buffer of this size where a
message begins; the rest of the message may follow in one frame of any length."""
UNREAD = 16 << 20
"""Bytes that may wait for the peer. Below, both ends can write at once and neither blocks."""

_HEADER = struct.Struct(">II")
_CHUNK = 1 << 16


class Frames:
    """Cuts a stream of bytes into frames, wherever the stream was split."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The frames that `data` completes: connection id and payload. Raises LinkGarbled."""
        self._held += data
        while len(self._held) >= _HEADER.size:
            connection, length = _HEADER.unpack_from(self._held)
            if length > LONGEST_PAYLOAD:
                raise LinkGarbled(
                    f"a frame of {length} bytes came in; at most {LONGEST_PAYLOAD} are allowed"
                )
            end = _HEADER.size + length
            if len(self._held) < end:
                return
            payload = bytes(self._held[_HEADER.size : end])
            del self._held[:end]
            yield connection, payload

    @property
    def halfway(self) -> bool:
        """True when the stream stops within a frame."""
        return bool(self._held)


def frames(connection: int, message: bytes) -> bytes:
    """A message in frames, as every reader can take it."""
    first, rest = message[:FIRST_PAYLOAD], message[FIRST_PAYLOAD:]
    cut = _HEADER.pack(connection, len(first)) + first
    return cut + _HEADER.pack(connection, len(rest)) + rest if rest else cut


class Receiver(Protocol):
    """The near end of one connection."""

    def receive(self, data: bytes) -> None:
        """Take the next bytes. Raises LinkGarbled."""

    def lost(self, error: LinkLost) -> None:
        """Nothing more will come, and nothing can be sent."""


class MuxChannel:
    """One of a trunk's connections, for sending."""

    def __init__(self, connection: int, writer: asyncio.StreamWriter) -> None:
        self._connection = connection
        self._writer = writer

    def send(self, message: bytes) -> None:
        """Hand a whole message to the socket."""
        self._writer.write(frames(self._connection, message))

    async def flushed(self) -> None:
        """Wait until the socket takes more. Raises LinkLost."""
        try:
            await self._writer.drain()
        except OSError as e:
            raise LinkLost(f"the connection broke: {e}") from e


class Trunk:
    """The socket, with a receiver for each of its connections."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, write_s: float
    ) -> None:
        """`write_s`: seconds that the peer may take to read on when too much waits for it."""
        self._reader = reader
        self._writer = writer
        writer.transport.set_write_buffer_limits(high=UNREAD)
        self._write_s = write_s
        self._frames = Frames()
        self._receivers: dict[int, Receiver] = {}

    def open(self, connection: int, receiver: Receiver) -> MuxChannel:
        """Let `receiver` have what comes in on a connection. Frames for connections that are
        not open are dropped, as NRI does."""
        self._receivers[connection] = receiver
        return MuxChannel(connection, self._writer)

    @asynccontextmanager
    async def reading(self, name: str) -> AsyncGenerator[None]:
        """Read while the block lasts, in a task called `name`; then close the socket, whatever is
        still unsent. Raises LinkLost out of the block when the connection ends, whatever else fails
        for that reason."""
        try:
            async with open_tasks() as tasks:
                tasks.create_task(self._run(), name=name)
                yield
        except ExceptionGroup as errors:
            lost, others = errors.split(NodeError)
            if lost is None or others is not None:
                raise
            raise lost.exceptions[0] from errors
        finally:
            self._writer.transport.abort()
            with suppress(OSError):
                await self._writer.wait_closed()

    async def _run(self) -> NoReturn:
        error = LinkLost("the connection was closed on this side")
        try:
            await self._read()
        except LinkLost as e:
            error = e
            raise
        except OSError as e:
            error = LinkLost(f"the connection broke: {e}")
            raise error from e
        finally:
            for receiver in self._receivers.values():
                receiver.lost(error)

    async def _read(self) -> NoReturn:
        while data := await self._reader.read(_CHUNK):
            for connection, payload in self._frames.feed(data):
                if receiver := self._receivers.get(connection):
                    receiver.receive(payload)
            await self._drain()
        within = ", within a frame" if self._frames.halfway else ""
        raise LinkLost(f"the peer closed the connection{within}")

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(self._write_s):
                await self._writer.drain()
        except TimeoutError as e:
            raise LinkStuck(f"the peer did not read for {self._write_s} s") from e
