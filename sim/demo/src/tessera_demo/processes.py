"""The demo's processes: started, started again when they die, and ended in order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from tessera_embedded.parent import ends_with_parent
from tessera_kubelet.background import open_tasks

_END_S: Final = 12.0
_AGAIN_S: Final = 0.3
_AGAIN_MOST: Final = 10
_TAIL_LINES: Final = 8


class Program:
    """One process that is to run for as long as the demo does."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        """Not started yet."""
        self.name = name
        self.starts = 0
        self.killed = False
        """Whether `kill` ended it once."""
        self.log = log
        self._argv = argv
        self._env = dict(env)
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._ending = False

    async def start(self) -> None:
        """Start it, unless it was asked to end. Raises OSError."""
        async with self._starting:
            if self._ending:
                return
            with self.log.open("ab") as output:
                self._process = await asyncio.create_subprocess_exec(
                    *self._argv, env=self._env, stdin=asyncio.subprocess.DEVNULL, stdout=output,
                    stderr=output, start_new_session=True, preexec_fn=ends_with_parent(),
                )  # fmt: skip
            self.starts += 1

    async def keep(self, say: Callable[[str], None]) -> None:
        """Start it again whenever it ends before it was asked to."""
        while self._process is not None:
            status = await self._process.wait()
            if self._ending:
                return
            say(f"{self.name} ended ({_said(status)}): starting it again")
            await asyncio.sleep(_AGAIN_S * min(self.starts, _AGAIN_MOST))
            await self.start()

    def kill(self) -> None:
        """End it as a machine that fails would."""
        self.killed = True
        self._send(signal.SIGKILL)

    async def end(self) -> bool:
        """Ask it to end; False when it had to be killed."""
        self._ending = True
        async with self._starting:  # one that was just being started again ends, too
            if self._process is None or self._process.returncode is not None:
                return True
        self._send(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await self._process.wait()
                return True
        self._send(signal.SIGKILL)
        await self._process.wait()
        return False

    def tail(self) -> str:
        """The end of what it said."""
        with suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
        return ""

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


def _said(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"status {status}"


class Programs:
    """All of them, in the order in which they were started."""

    def __init__(self, folder: Path, say: Callable[[str], None], tasks: asyncio.TaskGroup) -> None:
        """Made by `open_programs`."""
        self.all: list[Program] = []
        self._folder = folder
        self._say = say
        self._tasks = tasks

    async def start(self, name: str, argv: Sequence[str], env: Mapping[str, str]) -> Program:
        """Start a program and keep it running. Raises OSError."""
        program = Program(name, argv, env, self._folder / f"{name}.log")
        await program.start()
        self.all.append(program)
        self._tasks.create_task(program.keep(self._say), name=name)
        return program


@asynccontextmanager
async def open_programs(folder: Path, say: Callable[[str], None]) -> AsyncGenerator[Programs]:
    """A place for programs; they end with it, the last one first. Their output goes to `folder`."""
    async with open_tasks() as tasks:
        programs = Programs(folder, say, tasks)
        try:
            yield programs
        finally:
            for program in reversed(programs.all):
                if not await program.end():
                    say(f"{program.name} did not end when asked and was killed")
