"""A connection whose next request the web framework answers: that one, and no more.

The framework bounds the body of one request; how many there are, how much they hold together and
how long they take is `tessera_runtime.http.connections`' to bound here as elsewhere. As the
framework does not say where a request ends, its connections end with their first answer.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from tessera_runtime.http.connections import Connections, ConnectionStage, ServerConnection

FREE_MOST: Final = 64 * 1024
"""Bytes of a request that need no room: health, metrics and explanations have no bodies."""


class Handover(asyncio.Protocol):
    """Stands between the transport and the framework's protocol."""

    def __init__(
        self,
        connections: Connections,
        peer: ServerConnection,
        inner: asyncio.Protocol,
        most: int | None,
    ) -> None:
        """`inner` is the framework's; `most` bytes are passed on, where a bound is needed that the
        framework does not have."""
        self._connections = connections
        self._peer = peer
        self._inner = inner
        self._most = most
        self._size = 0

    def begin(self, transport: asyncio.Transport, first: bytes) -> None:
        """Hand over, with what has come already."""
        transport.set_protocol(self)
        self._inner.connection_made(transport)
        self.data_received(first)

    def streams(self) -> None:
        """See `streams`."""
        self._connections.enters(self._peer, ConnectionStage.WHOLE)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._size += len(data)
        if self._size > FREE_MOST and not self._connections.grow(self._peer, self._size):
            self._peer.cut()  # room is for API server and kube-scheduler, which are not here
        elif self._most is not None and self._size > self._most:
            self._peer.cut()
        else:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """See asyncio.Protocol."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BaseProtocol."""
        self._inner.connection_lost(exc)
        self._connections.leave(self._peer)


async def last_answer(_: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare`: says that the connection ends, and has it end."""
    response.force_close()
    response.headers["Connection"] = "close"


def streams(request: web.Request) -> None:
    """Says that the answer goes on for as long as its client reads it: the connection is neither
    closed for its age nor for another. The handler bounds how many there are, and how long one
    write may take."""
    transport = request.transport
    protocol = transport.get_protocol() if transport is not None else None
    if isinstance(protocol, Handover):
        protocol.streams()


@web.middleware
async def as_it_is(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuses bodies that would have to be inflated first: their size would be no bound.

    Answers that are raised, and connections that break, leave nothing behind: the traceback of the
    exception holds frames, these hold the request, and it holds the exception. Only the garbage
    collector would free the body, and it comes hundreds of MiB late.
    """
    coding = request.headers.get("Content-Encoding", "identity")
    if coding.lower() != "identity":
        text = f"Content-Encoding: {coding[:64]!r}: send the body as it is\n"
        return web.Response(status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text=text)
    try:
        return await handler(request)
    except web.HTTPException as e:
        e.__traceback__ = None
        return web.Response(status=e.status, reason=e.reason, body=e.body, headers=e.headers)
    except ConnectionError as e:
        if request.transport is not None:
            raise  # of another connection
        e.__traceback__ = None
        return web.Response(status=HTTPStatus.BAD_REQUEST)  # nobody reads it
