"""A place on this machine for a node's programs, which vanishes with everything in it.

Mounts and processes are its own: the folders that the programs insist upon (kubelet's, the
runtime's, the hook's) lie over the machine's, which stay as they are, and whatever a shim or a
container leaves behind ends with the first process. The network is the machine's.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from tessera_embedded.parent import ends_with_parent

START_S = 60.0
END_S = 60.0
POLL_S = 0.02
COVERED = ("/usr/local", "/var/lib")
"""What is written there stays here."""
EMPTY = ("/run", "/var/log")
CGROUPS = Path("/sys/fs/cgroup")


class Gone(Exception):
    """A program ended, or does not do what it should; the message has the end of its log."""


class Process:
    """A program in the island that can be started again; its output goes into a file."""

    def __init__(
        self, island: Island, argv: Sequence[str | Path], env: Mapping[str, str], log: Path
    ) -> None:
        self._island = island
        self._argv = [str(word) for word in argv]
        self._env = dict(env)
        self._outer: asyncio.subprocess.Process | None = None
        self.name = log.stem
        self.log = log

    async def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self._outer = await asyncio.create_subprocess_exec(
                "nsenter", f"--target={self._island.first}", "--mount", "--pid", "--",
                *self._argv, env=self._env, stdin=asyncio.subprocess.DEVNULL, stdout=log,
                stderr=log,
            )  # fmt: skip

    def send(self, what: signal.Signals) -> None:
        """Send it a signal; `nsenter`, which waits for it, gets none."""
        assert self._outer is not None, self._argv
        for child in _children(self._outer.pid):
            os.kill(child, what)

    @property
    def running(self) -> bool:
        """Whether it was started, and has not ended."""
        return self._outer is not None and self._outer.returncode is None

    @property
    def pid(self) -> int:
        """Its number on the machine."""
        assert self._outer is not None, self._argv
        return _children(self._outer.pid)[0]

    async def ended(self) -> int:
        """Wait until it has ended; its status."""
        assert self._outer is not None, self._argv
        async with asyncio.timeout(END_S):
            return await self._outer.wait()

    async def stop(self, what: signal.Signals = signal.SIGKILL) -> int:
        """Send it a signal and wait until it has ended; its status."""
        self.send(what)
        return await self.ended()

    def check(self) -> None:
        """Say its last words if it is not running."""
        if self._outer is None or self._outer.returncode is not None:
            raise Gone(f"{self._argv[0]} ended: {self.words()}")

    def words(self) -> str:
        """The end of what it said."""
        return self.log.read_text(errors="replace")[-3000:]

    async def close(self) -> None:
        """End it, whatever it does."""
        if self._outer is None or self._outer.returncode is not None:
            return
        with suppress(ProcessLookupError):
            self.send(signal.SIGKILL)
        await self.ended()


class Island:
    """Where programs run."""

    def __init__(self, folder: Path, first: int, stack: AsyncExitStack) -> None:
        self.folder = folder
        """Seen from inside and outside. Keep it short: sockets lie in it."""
        self.own = folder / "own"
        """In memory, and seen from inside alone."""
        self.first = first
        """The first process, which all others end with."""
        self.cgroup = f"/tessera-{folder.name}"
        """Below which all containers should run."""
        self._stack = stack

    async def start(
        self, name: str, *argv: str | Path, env: Mapping[str, str] | None = None
    ) -> Process:
        """Start a program."""
        usual = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        program = Process(self, argv, env or usual, self.folder / f"{name}.log")
        await program.start()
        self._stack.push_async_callback(program.close)
        return program

    async def run(self, *argv: str | Path) -> str:
        """Run a program to its end; what it printed. Raises Gone when it fails."""
        process = await asyncio.create_subprocess_exec(
            "nsenter", f"--target={self.first}", "--mount", "--pid", "--", *map(str, argv),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(START_S):
            output, _ = await process.communicate()
        text = output.decode(errors="replace")
        if process.returncode:
            raise Gone(f"{argv[0]}: {text}")
        return text

    def outside(self, path: str | Path) -> Path:
        """Where a path of the island lies for the test."""
        return Path(f"/proc/{self.first}/root{path}")


@asynccontextmanager
async def open_island(folder: Path) -> AsyncGenerator[Island]:
    """An island until the block ends, with everything that runs in it."""
    first = await asyncio.create_subprocess_exec(
        "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--",
        "sh", "-ec", _script(folder), stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, preexec_fn=ends_with_parent(signal.SIGKILL),
    )  # fmt: skip
    async with AsyncExitStack() as last, AsyncExitStack() as stack:
        last.push_async_callback(_end, first, folder)
        assert first.stdout is not None
        async with asyncio.timeout(START_S):
            said = await first.stdout.readline()
        if said != b"ready\n":
            raise Gone("the island could not be made: see what was printed above")
        island = Island(folder, _children(first.pid)[0], stack)
        for cgroup in _cgroups(island.cgroup):
            cgroup.mkdir(exist_ok=True)
        yield island


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _script(folder: Path) -> str:
    own = shlex.quote(str(folder / "own"))
    lines = [f"mkdir -p {own}", f"mount -t tmpfs tmpfs {own}"]
    for path in COVERED:
        mine = f"{own}{path}"
        lines += [
            f"mkdir -p {mine}/upper {mine}/work",
            f"mount -t overlay -o lowerdir={path},upperdir={mine}/upper,workdir={mine}/work"
            f" overlay {path}",
        ]
    lines += [f"mount -t tmpfs tmpfs {path}" for path in EMPTY]
    # Volumes that kubelet mounts must show in containers; no child that is left over must stay.
    lines += ["mount --make-rshared /", "trap '' CHLD", "echo ready", "exec sleep infinity"]
    return "\n".join(lines)


async def _end(first: asyncio.subprocess.Process, folder: Path) -> None:
    with suppress(ProcessLookupError):
        first.kill()
    async with asyncio.timeout(END_S):
        await first.wait()
        for top in _cgroups(f"/tessera-{folder.name}"):
            await _remove(top)


def _cgroups(name: str) -> list[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS / name.lstrip("/")]
    links = (folder for folder in CGROUPS.iterdir() if folder.is_dir() and not folder.is_symlink())
    return [folder / name.lstrip("/") for folder in links]


async def _remove(cgroup: Path) -> None:
    """A cgroup is empty a moment after its last process was killed."""
    for folder, _, _ in os.walk(cgroup, topdown=False):
        while not _gone(folder):
            await asyncio.sleep(POLL_S)


def _gone(cgroup: str) -> bool:
    try:
        Path(cgroup).rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
