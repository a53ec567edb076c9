"""A daemon of one machine, in a folder of the test, and the command that asks it."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tessera_schema.local_shares import LOCAL_SOCKET
from tests.agent.machine import BUILD, built


class Machine:
    """One machine with two simulated cards of 16 GiB."""

    def __init__(self, folder: Path, *, root: Path | None = None) -> None:
        """With `root`, the device nodes of the cards are below that folder."""
        self.folder = folder
        self.root = root
        self.daemon = started(folder, root)
        self.processes: list[subprocess.Popen[str]] = []

    def tessera(self, *arguments: str, uid: int | None = None) -> subprocess.CompletedProcess[str]:
        """The command, to its end; as this user."""
        return subprocess.run(
            self._argv(uid, *arguments), capture_output=True, text=True, timeout=120
        )

    def start(self, *arguments: str, uid: int | None = None) -> subprocess.Popen[str]:
        """The command, in the background."""
        process = subprocess.Popen(
            self._argv(uid, *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def run_of(self, process: subprocess.Popen[str]) -> str:
        """The next line of its output."""
        assert process.stdout is not None
        return process.stdout.readline().rstrip("\n")

    def end(self) -> None:
        """End every process that was started."""
        for process in self.processes:
            process.kill()
            process.communicate()
        self.daemon.terminate()
        self.daemon.wait(30)

    def kill_daemon(self) -> None:
        """kill -9; another one is started."""
        self.daemon.kill()
        self.daemon.wait(30)
        self.daemon = started(self.folder, self.root)

    def _argv(self, uid: int | None, command: str, *given: str) -> list[str]:
        arguments = list(given)
        as_user = [str(Path(__file__).with_name("as_user.py")), str(uid)]
        program = ["-m", "tessera_cli"] if uid is None else as_user
        where = ["--simulated", "--folder", str(self.folder)]
        if command == "share":
            action, *arguments = arguments
            return [sys.executable, *program, command, action, *where, *arguments]
        return [sys.executable, *program, command, *where, *arguments]


@contextmanager
def a_folder_for_all() -> Iterator[Path]:
    """A folder that every user can get to; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="local-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One of a test."""
    with a_folder_for_all() as folder:
        yield folder


def started(folder: Path, root: Path | None) -> "subprocess.Popen[bytes]":
    """A daemon that answers."""
    nodes = [] if root is None else ["--root", str(root)]
    daemon = subprocess.Popen(
        [
            sys.executable, "-m", "tessera_agent.local", "--folder", str(folder), "--simulated",
            "--hook", str(BUILD / "libtessera.so"), "--driver", str(BUILD / "sim"), *nodes,
        ],
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while daemon.poll() is None:
        with socket.socket(socket.AF_UNIX) as trial:
            if trial.connect_ex(str(folder / LOCAL_SOCKET)) == 0:
                return daemon
        time.sleep(0.02)  # noqa: TID251  (another process starts)
    raise AssertionError("the daemon has ended")


@pytest.fixture
def machine(open_folder: Path) -> Iterator[Machine]:
    """Its daemon is started here, and ended."""
    built("libtessera.so")
    one = Machine(open_folder / "local")
    try:
        yield one
    finally:
        one.end()
