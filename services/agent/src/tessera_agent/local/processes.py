"""Processes that hold shares: which one is at the other end of a socket, and when it ends.

A process is its number and its start time, so that a later one of the same number is another.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

_CREDENTIALS: Final = struct.Struct("3i")
_STATE: Final = 0
_STARTED: Final = 19
"""Fields of /proc/<pid>/stat, counted from the one behind the command's name."""


class LocalProcess(Struct, frozen=True, kw_only=True):
    """A process, and whose it is."""

    pid: int
    started: int
    """Field 22 of /proc/<pid>/stat."""
    uid: int
    gid: int


class PeerGone(Exception):
    """The process at the other end of a socket has ended."""


def peer_of(connection: socket.socket) -> LocalProcess:
    """The process that opened the connection, as the kernel says. Raises PeerGone."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    started = start_time(pid)
    if started is None:
        raise PeerGone(f"process {pid} has ended")
    return LocalProcess(pid=pid, started=started, uid=uid, gid=gid)


def start_time(pid: int) -> int | None:
    """When a process was started, in the kernel's ticks; None = there is none that runs."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[_STATE] in "ZX" else int(fields[_STARTED])


def runs(process: LocalProcess) -> bool:
    """Whether that very process has not ended."""
    return start_time(process.pid) == process.started


def opened(process: LocalProcess) -> int | None:
    """A descriptor of that very process, which can be read from once it has ended; the caller's to
    close. None = it has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return None
    if runs(process):
        return descriptor
    os.close(descriptor)
    return None


async def ended(process: LocalProcess) -> None:
    """Return when the process has ended."""
    descriptor = opened(process)
    if descriptor is None:
        return
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def started_with(name: str, value: str) -> set[int]:
    """The processes that were started with this variable, as far as this user may see them. It
    blocks."""
    wanted, found = f"{name}={value}".encode(), set[int]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                found.add(int(process.name))
    return found


def user_name(uid: int) -> str:
    """For people: the user's name, or its number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
