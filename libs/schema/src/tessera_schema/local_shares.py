"""What `tessera run` and the daemon of one machine say to each other: one JSON line each way.

The daemon knows who asks from the socket (SO_PEERCRED); nothing here says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

LOCAL_SOCKET: Final = "socket"
"""The socket's name in the daemon's folder."""
MOST_LINE: Final = 1 << 22
"""Bytes of a message, its end included."""


class ShareWanted(Struct, frozen=True, kw_only=True, tag="run"):
    """A share for the process that is at the other end of the socket, until it ends."""

    memory_bytes: int = 0
    """Of each card; 0 = whole cards."""
    cores_percent: float = 0
    """Of each card; 0 = no cores are promised, and none limited."""
    count: int = 1
    """Cards."""
    cards: tuple[str, ...] = ()
    """Ids or numbers of cards that may be given; empty = all."""
    model: str = ""
    """A part of the model's name, in any case; empty = all."""
    best_effort: bool = False
    """No cores are promised: it has the card's time that others leave."""
    wait_s: float | None = 0
    """Seconds to wait for room; None = without end."""
    name: str = ""
    """Of a share that no process holds: it is reserved until it is removed; empty = it is held by
    the process."""
    command: str = ""
    """For people."""


class SharesWanted(Struct, frozen=True, tag="list"):
    """The shares that are held, and their owners."""


class ShareUnwanted(Struct, frozen=True, tag="remove"):
    """Remove a reserved share."""

    name: str


LocalRequest = ShareWanted | SharesWanted | ShareUnwanted


class ShareGiven(Struct, frozen=True, kw_only=True, tag="given"):
    """The share, with what its processes must be started with."""

    name: str
    cards: tuple[str, ...]
    """Ids."""
    env: Mapping[str, str]
    paths: Mapping[str, str]
    """Variables that are lists of paths -> what comes first in them."""
    files: Mapping[str, str] = {}
    """Path in a container -> path on the machine, of what a container needs mounted to read."""
    written: Mapping[str, str] = {}
    """The same, of what it also writes."""
    devices: Mapping[str, str] = {}
    """The same, of a container's device nodes."""
    container_env: Mapping[str, str] = {}
    """Variables of a container, in the place of `env`."""


class ShareRefused(Struct, frozen=True, tag="refused"):
    """Nothing was given, or removed."""

    why: str


class ShareFreed(Struct, frozen=True, tag="freed"):
    """A reserved share is removed."""

    name: str


class LocalCard(Struct, frozen=True, kw_only=True):
    """A card of the machine."""

    id: str
    index: int
    model: str
    memory_bytes: int
    held_bytes: int
    held_percent: float
    """Of its cores."""
    shares: int
    healthy: bool


class LocalShare(Struct, frozen=True, kw_only=True):
    """A part of one card that a process, or a reserved share, holds."""

    name: str
    user: str
    pid: int
    """0 = reserved."""
    card: str
    index: int
    memory_bytes: int
    used_bytes: int
    """As its hook counts it."""
    cores_percent: float
    lent_percent: float
    best_effort: bool
    since: float
    """Unix time."""
    command: str
    """Empty where it is another user's."""
    gpu_ns: int = 0
    """Time of the card that it has had so far, as its hook counts it; a new file begins at 0."""
    throttled_ns: int = 0
    """Time so far for which its launches were held back."""


class LocalWaiting(Struct, frozen=True, kw_only=True):
    """A process that waits for room."""

    user: str
    pid: int
    wanted: ShareWanted
    """Without the command, where it is another user's."""
    since: float
    """Unix time."""
    why: str
    """Why nothing was given so far."""


class SharesListed(Struct, frozen=True, kw_only=True, tag="shares"):
    """All cards and shares."""

    cards: tuple[LocalCard, ...]
    shares: tuple[LocalShare, ...]
    waiting: int
    """Processes that wait for room."""
    at_s: float = 0
    """When the counters were read, by a clock that nobody sets."""
    queue: tuple[LocalWaiting, ...] = ()
    """Those that wait, in the order in which they came."""


LocalAnswer = ShareGiven | ShareRefused | ShareFreed | SharesListed
