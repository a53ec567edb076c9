"""Containers' processes: started in a session of their own, so that they outlive the node's process
as containers outlive kubelet, and found again by pid and start time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Final

from msgspec import Struct

LOST: Final = 137
"""Exit status of a process whose end nobody saw (kubelet's ContainerStatusUnknown)."""


class ProcessRecord(Struct, frozen=True):
    """A process, distinguished from a later one of the same number."""

    pid: int
    started: str
    """Field 22 of /proc/<pid>/stat."""


class NodeProcess:
    """A process that was started here, or by the node's process before."""

    def __init__(self, record: ProcessRecord, popen: Popen[bytes] | None = None) -> None:
        """`popen` where this process is its parent."""
        self.record = record
        self._popen = popen

    @property
    def pid(self) -> int:
        """Its number."""
        return self.record.pid

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, and to all of its session's processes."""
        if is_alive(self.record) or self._popen is not None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return

    async def wait(self) -> int:
        """Its exit status; 128 + the signal that ended it."""
        if self._popen is None and not is_alive(self.record):
            return LOST
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return self._status()
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        return self._status()

    def _status(self) -> int:
        code = self._popen.poll() if self._popen is not None else LOST
        code = LOST if code is None else code
        return 128 - code if code < 0 else code


def start(argv: Sequence[str], env: Mapping[str, str], folder: Path) -> NodeProcess:
    """Start a program in a folder, its output in `log` there. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("ab") as output:
        popen = Popen(  # noqa: S603  (the node's description names the program)
            argv, env=dict(env), cwd=folder, stdin=DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    return NodeProcess(ProcessRecord(popen.pid, _started(popen.pid)), popen)


def writing_below(folder: Path) -> list[tuple[int, int, Path]]:
    """Pid, session and log of every process whose output goes to a log below a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            pid, log = int(process.name), (process / "fd/1").readlink()
            if log.is_relative_to(folder):
                found.append((pid, os.getsid(pid), log))
        except OSError:  # it has ended, or is another user's
            continue
    return found


def is_alive(record: ProcessRecord) -> bool:
    """True while that very process runs."""
    return bool(record.started) and _started(record.pid) == record.started


def _started(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
