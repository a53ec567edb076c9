"""The open connections of one server: how many, how much they hold, and how long they may take.

Anybody on the pod network can connect to a port of Tessera, and a connection that sends a byte now
and then costs its sender nothing. Three rules keep room for those that are served:

- *Number.* When there are as many as there may be, the new one is let in and an old one goes. To
  refuse the newest would leave the API server outside for as long as strangers stay. First those go
  that have kept us waiting for the rest of a request; then the oldest that were never served, where
  they are more than half; then whichever was served least recently. To push out a client between
  its connecting and its request, strangers would have to open half as many connections as there
  may be within these few milliseconds. A request that has come whole is never pushed out.
- *Memory.* A body that comes in several pieces has room reserved for all of it before more than the
  first is read. Where there is none it waits its turn in the kernel's buffers; and while one
  waits, those with room have to come whole at once. So a large review waits behind strangers for
  as long as these are patient with each other, and one that comes in one piece does not wait.
- *Time.* A request comes whole, TLS included, and its answer is read, by a deadline.

Where clients are asked for certificates, those that showed one are the last to go and the first to
be given room.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from tessera_runtime import logs

log = logs.named("tessera.http")

CONNECTIONS_MOST: Final = 192
"""API servers and kube-scheduler use some dozens. Each may hold 800 KiB: 300 of what it sent first,
and the buffers of TLS."""
REQUESTS_MOST: Final = 48 * 2**20
"""Bytes of bodies together that do not come in one piece: sixteen reviews of 3 MiB."""
REQUEST_S: Final = 30.0
"""The API server gives up on a webhook after 5 s, kube-scheduler on an extender after 30."""
PATIENCE_S: Final = 0.5
"""Seconds in which a body has to come whole while others wait for its room; 3 MiB need 50 ms."""
SWEEP_S: Final = 0.25
"""Seconds between looks at all connections."""
_REPORT_S: Final = 10.0
"""Seconds between log lines about connections that were cut."""


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """What the connections of one server may cost together."""

    connections: Annotated[int, Meta(ge=1)] = CONNECTIONS_MOST
    """Open connections."""
    request_bytes: Annotated[int, Meta(ge=1)] = REQUESTS_MOST
    """Bytes of bodies together that do not come in one piece."""
    request_s: Annotated[float, Meta(gt=0)] = REQUEST_S
    """Seconds in which a request has to come whole, and in which its answer has to be read."""


class ConnectionStage(IntEnum):
    """What a connection does."""

    COMING = 0
    """Its client owes something: a handshake, a request or the rest of it, or to read an answer."""
    IDLE = 1
    """Everything is answered."""
    WHOLE = 2
    """A request has come whole, and is not answered."""


class ServerConnection:
    """One connection, from its being accepted until it is gone, whichever protocol reads it."""

    def __init__(self, now: float) -> None:
        """Use `Connections.enter`."""
        self.since = now
        """Loop time from which on it is at its stage."""
        self.stage = ConnectionStage.COMING
        self.served = False
        """True once a request of it was answered."""
        self.known = False
        """True where it showed a client certificate."""
        self.room = 0
        """Bytes that are reserved for it."""
        self.room_at = now
        """Loop time from which on they are."""
        self.cut: Callable[[], object] = _nothing
        """Closes it, whatever it does."""
        self.close: Callable[[], object] = _nothing
        """Closes it in the way that an idle connection is closed."""


class Connections:
    """All of a server. Times are of the event loop, in seconds."""

    def __init__(self, limits: ConnectionLimits, idle_s: float, now: Callable[[], float]) -> None:
        """Idle ones are closed after `idle_s` seconds."""
        self.limits = limits
        self.empty = asyncio.Event()
        """Set while there is none."""
        self.empty.set()
        self.to_sweep = asyncio.Event()
        """Set while there is something for `sweep` to look at."""
        self.reserved = 0
        """Bytes of all rooms."""
        self._idle_s = idle_s
        self._now = now
        self._open: dict[ServerConnection, None] = {}
        self._waiting: dict[ServerConnection, tuple[int, Callable[[], None]]] = {}
        """For how much room, and what is called when it is there."""
        self._cut: Counter[str] = Counter()
        self._reported_at = float("-inf")

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def enter(self) -> ServerConnection | None:
        """A new connection; another goes where there are too many, and None where none can go."""
        while len(self._open) >= self.limits.connections:
            victim = self._least_missed()
            if victim is None:
                self._cut["all are being answered"] += 1
                return None
            self._drop(victim, "too many connections")
        peer = ServerConnection(self._now())
        self._open[peer] = None
        self.empty.clear()
        self.to_sweep.set()
        return peer

    def leave(self, peer: ServerConnection) -> None:
        """Forget a connection that is closed."""
        if peer in self._open:
            self.release(peer)
            del self._open[peer]
        peer.cut = peer.close = (
            _nothing  # they hold the transport, or the task, that holds the peer
        )
        if not self._open:
            self.empty.set()

    def enters(self, peer: ServerConnection, stage: ConnectionStage) -> None:
        """It is at this stage from now on."""
        peer.stage, peer.since = stage, self._now()

    def reserve(self, peer: ServerConnection, size: int, go_on: Callable[[], None]) -> bool:
        """Have room for so many bytes; False where it has to wait, until `go_on` is called."""
        if peer.room >= size or peer not in self._open:
            return True
        self._waiting[peer] = (size, go_on)
        self._give_room()
        return peer not in self._waiting

    def grow(self, peer: ServerConnection, size: int) -> bool:
        """Have room for so many bytes at once; False where there is none."""
        if size > peer.room and not self._fits(peer, size):
            return False
        self._give(peer, max(size, peer.room))
        return True

    def release(self, peer: ServerConnection) -> None:
        """Give its room to others, or wait for none any more."""
        self._waiting.pop(peer, None)
        if peer.room:
            self._give(peer, 0)
            self._give_room()

    def sweep(self) -> None:
        """Close what has been idle or incomplete for too long."""
        now = self._now()
        for peer in tuple(self._open):
            waited_s = now - peer.since
            if peer.stage is ConnectionStage.IDLE and waited_s >= self._idle_s:
                self._let_go(peer)
            elif peer.stage is ConnectionStage.COMING and waited_s >= self.limits.request_s:
                self._drop(peer, "too slow")
            elif peer.stage is ConnectionStage.COMING and self._hinders(peer, now):
                self._drop(peer, "too slow while others wait for room")
        self._report(now)
        if not self._open and not self._cut:
            self.to_sweep.clear()

    def close_idle(self) -> None:
        """Close those of which nothing is asked."""
        for peer in tuple(self._open):
            if peer.stage is ConnectionStage.IDLE:
                self._let_go(peer)

    def cut_all(self) -> None:
        """Close every one, whatever it does."""
        for peer in tuple(self._open):
            peer.cut()

    def _drop(self, peer: ServerConnection, why: str) -> None:
        self._cut[why] += 1
        cut = peer.cut
        self.leave(peer)
        cut()

    def _hinders(self, peer: ServerConnection, now: float) -> bool:
        return bool(self._waiting and peer.room and now - peer.room_at >= PATIENCE_S)

    def _fits(self, peer: ServerConnection, size: int) -> bool:
        others = self.reserved - peer.room
        return not others or others + size <= self.limits.request_bytes

    def _give(self, peer: ServerConnection, size: int) -> None:
        if peer in self._open:
            if not peer.room:
                peer.room_at = self._now()
            self.reserved += size - peer.room
            peer.room = size

    def _give_room(self) -> None:
        """To those that wait, in the order in which they came."""
        for peer in sorted(self._waiting, key=lambda peer: (not peer.known, peer.since)):
            size, go_on = self._waiting[peer]
            if not self._fits(peer, size):
                return
            del self._waiting[peer]
            self._give(peer, size)
            go_on()

    def _let_go(self, peer: ServerConnection) -> None:
        self.enters(peer, ConnectionStage.COMING)  # it owes what closing needs of it
        peer.close()

    def _least_missed(self) -> ServerConnection | None:
        """Which one goes where there are too many."""
        free = [peer for peer in self._open if peer.stage is not ConnectionStage.WHOLE]
        free = [peer for peer in free if not peer.known] or free
        before = self._now() - PATIENCE_S
        new = [peer for peer in free if not peer.served]
        served = [peer for peer in free if peer.served]
        pool = [peer for peer in free if peer.since <= before and self._owes(peer)]
        if not pool:
            pool = new if 2 * len(new) > self.limits.connections or not served else served
        return min(pool, key=lambda peer: peer.since, default=None)

    def _owes(self, peer: ServerConnection) -> bool:
        """True where its client has something to do, and is not waiting for us."""
        return (
            peer.stage is ConnectionStage.COMING or not peer.served
        ) and peer not in self._waiting

    def _report(self, now: float) -> None:
        if self._cut and now - self._reported_at >= _REPORT_S:
            self._reported_at = now
            log.warning("connections cut", why=dict(self._cut), open=len(self._open))
            self._cut.clear()


def _nothing() -> None:
    """Until there is something to close."""
