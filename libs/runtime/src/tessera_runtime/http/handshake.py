"""TLS before anything else: a connection counts from its being accepted, not from its handshake."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn

from tessera_runtime import logs
from tessera_runtime.http.connections import Connections, ServerConnection

log = logs.named("tessera.http")

HANDSHAKE_S: Final = 10.0
"""Seconds that a client has for its part of the handshake, and of the end of TLS."""
_AGAIN_S: Final = 1.0
"""Seconds until the next try, where a connection cannot be taken: there are too many open files."""


class Handshakes:
    """Takes connections, and lets those in that speak TLS."""

    def __init__(
        self, listening: socket.socket, context: ssl.SSLContext, connections: Connections,
        inside: Callable[[ServerConnection], asyncio.Protocol],
        later: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:  # fmt: skip
        """`inside` makes what speaks inside of TLS, `later` runs a task."""
        self._listening = listening
        self._context = context
        self._connections = connections
        self._inside = inside
        self._later = later

    async def take(self) -> NoReturn:
        """One connection after the other, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            failed = asyncio.Event()
            loop.add_reader(self._listening, self._accept, failed)
            try:
                await failed.wait()
            finally:
                loop.remove_reader(self._listening)
            await asyncio.sleep(_AGAIN_S)

    def _accept(self, failed: asyncio.Event) -> None:
        """Called by the event loop for as long as a connection waits."""
        try:
            accepted, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError):  # it went before it was taken
            return
        except OSError as e:
            if not failed.is_set():
                log.warning("connection not taken", why=str(e))
            failed.set()
            return
        accepted.settimeout(0)
        self._admit(accepted)

    def _admit(self, accepted: socket.socket) -> None:
        peer = self._connections.enter()
        if peer is None:
            accepted.close()
        else:
            peer.cut = self._later(self._shake_hands(accepted, peer)).cancel

    async def _shake_hands(self, accepted: socket.socket, peer: ServerConnection) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._inside(peer), accepted, ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_S, ssl_shutdown_timeout=HANDSHAKE_S,
            )  # fmt: skip
        except OSError:  # it speaks no TLS, or went; ssl.SSLError is one
            self._connections.leave(peer)
        except asyncio.CancelledError:
            accepted.close()
            self._connections.leave(peer)
            raise
