"""A service of Tessera as a process of its own, watched from inside.

    python benchmarks/scale_service.py quota FILE

It is the same service: only its loop and its bus are watched. A task that wants to run every
millisecond notices how long it could not, in time and in processor time of the loop's thread, which
others on the machine do not lengthen. What is received is counted on its way to the service, and
every 50th message is compared with the time at which it was made. FILE gets a line of JSON a
second.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_runtime.bus.api import Bus, Message, Resync
from tessera_runtime.service import Service, ServiceEnvironment, ServiceShell, run_service
from tessera_schema.messages.event_catalogue import USAGE_MEASURED

EVERY_S: Final = 0.001
SAMPLE_S: Final = 1.0
EACH: Final = 50
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Second(Struct, kw_only=True):
    """What a process did in one second."""

    at: float
    """Unix time."""
    messages: int = 0
    """Received from the bus."""
    lag_s: float = 0
    """The most from when usage was published until the service received it."""
    blocked_s: float = 0
    """The longest time in which the loop did not come around."""
    busy_s: float = 0
    """The same in processor time of the loop's thread."""
    rss_mb: float = 0
    cpu_s: float = 0
    """Since the process began."""


class Watch:
    """Counts, and writes them down."""

    def __init__(self, path: Path) -> None:
        self.now = Second(at=time.time())
        self._path = path
        self._count = 0

    def received(self, message: Message) -> None:
        """A message came."""
        self.now.messages += 1
        self._count += 1
        if not self._count % EACH and message.envelope.type == USAGE_MEASURED:
            made = datetime.fromisoformat(message.envelope.time).timestamp()
            self.now.lag_s = max(self.now.lag_s, time.time() - made)

    async def follow(self) -> None:
        """Notice how long the loop does other things."""
        while True:
            began, began_cpu = time.perf_counter(), time.thread_time()
            await asyncio.sleep(EVERY_S)
            blocked = time.perf_counter() - began - EVERY_S
            self.now.blocked_s = max(self.now.blocked_s, blocked)
            self.now.busy_s = max(self.now.busy_s, time.thread_time() - began_cpu)

    async def write(self) -> None:
        """A line a second."""
        with self._path.open("ab") as lines:
            while True:
                await asyncio.sleep(SAMPLE_S)
                done, self.now = self.now, Second(at=time.time())
                done.rss_mb, done.cpu_s = _of_process()
                lines.write(msgspec.json.encode(done) + b"\n")
                lines.flush()


def _of_process() -> tuple[float, float]:
    """MB that are resident, and seconds of processor time."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return pages * _PAGE / 1e6, (int(fields[11]) + int(fields[12])) / _TICKS


class CountedBus:
    """The bus, with what is received counted."""

    def __init__(self, bus: Bus, watch: Watch) -> None:
        self._bus = bus
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        """Everything else is the bus's."""
        return getattr(self._bus, name)

    @asynccontextmanager
    async def subscribe(
        self, subject: str, *, durable: str = ""
    ) -> AsyncGenerator[AsyncIterator[Message]]:
        """See `Bus.subscribe`."""
        async with self._bus.subscribe(subject, durable=durable) as messages:
            yield self._counted(messages)

    @asynccontextmanager
    async def watch(
        self, bucket: str, keys: str = ">"
    ) -> AsyncGenerator[AsyncIterator[Message | Resync]]:
        """See `Bus.watch`."""
        async with self._bus.watch(bucket, keys) as messages:
            yield self._counted(messages)

    async def _counted(self, messages: AsyncIterator[Any]) -> AsyncGenerator[Any]:
        async for message in messages:
            if isinstance(message, Message):
                self._watch.received(message)
            yield message


def watched(service: Service[Any], path: Path) -> Service[Any]:
    """The service, watched."""

    async def serve(environment: ServiceEnvironment[Any], shell: ServiceShell) -> None:
        watch = Watch(path)
        bus: Any = CountedBus(environment.bus, watch)
        async with asyncio.TaskGroup() as group:
            group.create_task(watch.follow(), name="loop watch")
            group.create_task(watch.write(), name="figures")
            await service.serve(replace(environment, bus=bus), shell)

    return replace(service, serve=serve)


if __name__ == "__main__":
    module = import_module(f"tessera_{sys.argv[1]}.main")
    environ = os.environ  # noqa: TID251  (a process of its own)
    sys.exit(run_service(watched(module.SERVICE, Path(sys.argv[2])), environ))
