"""The daemon of this machine: where it is, how it is started, and one question to it.

The machine's daemon, which root runs, serves every user. Where there is none, a user's own serves
the user's processes alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from tessera_cli.errors import CommandError
from tessera_schema.local_shares import (
    LOCAL_SOCKET,
    MOST_LINE,
    LocalAnswer,
    LocalRequest,
    ShareRefused,
    SharesListed,
    SharesWanted,
)

_MACHINE: Final = Path("/run/tessera/local")
_SIMULATED: Final = "simulated"
_RUNTIME: Final = "XDG_RUNTIME_DIR"
_START_S: Final = 20.0
_AGAIN_S: Final = 0.05
_LAST_BYTES: Final = 2000


class NoLocalDaemon(CommandError):
    """No daemon answers, and none can be started."""


class NotGiven(CommandError):
    """The daemon refused."""


def answer_to(options: argparse.Namespace, request: LocalRequest) -> LocalAnswer:
    """The daemon's answer; it is started where none runs. Raises NoLocalDaemon, NotGiven."""
    folder = _folder(options)
    starter = _Starter(folder, simulated=options.simulated)
    until = time.monotonic() + _START_S
    while True:
        answer = _answer(folder, request)
        if isinstance(answer, ShareRefused):
            raise NotGiven(answer.why)
        if answer is not None:
            return answer
        if time.monotonic() > until:
            raise NoLocalDaemon(str(folder), "no daemon answers: see its file log")
        starter.start()
        time.sleep(_AGAIN_S)  # noqa: TID251  (a command without a loop)


def shares_of(options: argparse.Namespace) -> SharesListed:
    """All cards and shares of the machine. Raises NoLocalDaemon, NotGiven."""
    listed = answer_to(options, SharesWanted())
    if not isinstance(listed, SharesListed):
        raise NoLocalDaemon("the daemon is of another release: end it")
    return listed


def is_running(options: argparse.Namespace) -> bool:
    """Whether the daemon that would be asked answers already; nothing is made or started."""
    return _is_listening(_place(options) / LOCAL_SOCKET)


def is_own(options: argparse.Namespace) -> bool:
    """Whether the daemon serves this user alone."""
    return options.folder is None and _folder(options) != _machine(options)


def _machine(options: argparse.Namespace) -> Path:
    return _MACHINE / _SIMULATED if options.simulated else _MACHINE


def _folder(options: argparse.Namespace) -> Path:
    """Where the daemon is; a user's own folder is made. Raises NoLocalDaemon."""
    place = _place(options)
    if place != _own(options) or options.environ.get(_RUNTIME):
        return place
    own = place.parent if options.simulated else place
    own.mkdir(mode=0o700, exist_ok=True)
    found = own.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
        raise NoLocalDaemon(str(own), f"it is not this user's alone: set {_RUNTIME}")
    return place


def _place(options: argparse.Namespace) -> Path:
    """The folder that was named, else the machine's where root's daemon serves, else the user's."""
    if options.folder is not None:
        return Path(options.folder)
    machine = _machine(options)
    if os.getuid() == 0 or _is_listening(machine / LOCAL_SOCKET):
        return machine
    return _own(options)


def _own(options: argparse.Namespace) -> Path:
    """A folder of this user that nobody else can write."""
    runtime = options.environ.get(_RUNTIME)
    own = Path(runtime) / "tessera" if runtime else Path(f"/tmp/tessera-{os.getuid()}")  # noqa: S108  (whose it is, is looked at)
    return own / _SIMULATED if options.simulated else own


def _is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as trial:
        try:
            trial.connect(str(path))
        except OSError:
            return False
    return True


def _answer(folder: Path, request: LocalRequest) -> LocalAnswer | None:
    """None = nobody answers, or the one that did ended meanwhile."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(folder / LOCAL_SOCKET))
            connection.sendall(msgspec.json.encode(request) + b"\n")
            with connection.makefile("rb") as lines:
                line = lines.readline(MOST_LINE)
    except OSError:
        return None
    if not line.endswith(b"\n"):
        return None
    answer: LocalAnswer = msgspec.json.decode(line, type=LocalAnswer)
    return answer


class _Starter:
    """Starts a daemon, and again where it ended because another was ending."""

    def __init__(self, folder: Path, *, simulated: bool) -> None:
        self._folder = folder
        self._simulated = simulated
        self._started: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Raises NoLocalDaemon."""
        if self._started is not None:
            status = self._started.poll()
            if status is None:
                return
            if status:
                raise NoLocalDaemon("the daemon does not start", self._last_line())
        if importlib.util.find_spec("tessera_agent") is None:
            raise NoLocalDaemon("the daemon is not installed: install tessera-cli[run]")
        argv = [sys.executable, "-m", "tessera_agent.local", "--folder", str(self._folder)]
        try:
            self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            with (self._folder / "log").open("ab") as log:
                self._started = subprocess.Popen(  # noqa: S603  (our own)
                    [*argv, *(["--simulated"] if self._simulated else [])],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                    cwd="/",
                )  # fmt: skip
        except OSError as e:
            raise NoLocalDaemon(f"no daemon runs, and none can be started: {e}") from e

    def _last_line(self) -> str:
        text = (self._folder / "log").read_bytes()[-_LAST_BYTES:].decode(errors="replace")
        return text.strip().rpartition("\n")[2]
