"""TLS before anything else: a connection counts from its being accepted, not from its handshake."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Final, cast

from tessera_runtime.connections import Connections, Peer

HANDSHAKE_S: Final = 10.0
"""Seconds that a client has for its part of the handshake, and of the end of TLS."""


class Handshake(asyncio.Protocol):
    """One accepted connection whose client has not shown yet that it speaks TLS."""

    def __init__(
        self, connections: Connections, context: ssl.SSLContext,
        inside: Callable[[Peer], asyncio.Protocol],
        later: Callable[[Coroutine[None, None, None]], None],
    ) -> None:  # fmt: skip
        """`inside` makes what speaks inside of TLS, `later` runs a task."""
        self._connections = connections
        self._context = context
        self._inside = inside
        self._later = later

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        accepted = cast("asyncio.Transport", transport)
        peer = self._connections.enter(accepted)
        if peer is not None:
            accepted.pause_reading()  # until TLS reads
            self._later(self._shake_hands(accepted, peer))

    async def _shake_hands(self, accepted: asyncio.Transport, peer: Peer) -> None:
        inside = self._inside(peer)
        try:
            if accepted.is_closing():
                raise ConnectionAbortedError
            transport = await asyncio.get_running_loop().start_tls(
                accepted, inside, self._context, server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S, ssl_shutdown_timeout=HANDSHAKE_S,
            )  # fmt: skip
        except OSError:  # it speaks no TLS, or went; ssl.SSLError is one
            peer.cut()
            transport = None
        if transport is None or transport.is_closing():
            self._connections.leave(peer)
            return
        peer.known = bool(transport.get_extra_info("peercert"))
        inside.connection_made(transport)
