"""A bus and the power over its server: in memory, and a real nats-server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import nats
from msgspec.structs import replace
from nats.aio.client import Client

from tessera_embedded.nats_server import NatsServer, open_nats
from tessera_runtime.bus.api import Bus, Message, Resync
from tessera_runtime.bus.client import NatsBus, open_bus
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.errors import BusAway
from tessera_schema.messages.envelope import Envelope
from tessera_schema.subjects import DEVICES_BUCKET, usage
from tessera_testing.bus import FakeBus

T = TypeVar("T")
PATIENCE_S = 60.0
CLUSTER = "c"
_VALUES = f"tessera.v1.{CLUSTER}.device."
QUICK = BusSettings(
    cluster=CLUSTER, connect_s=60, retry_first_s=0.05, retry_most_s=0.3, call_s=60, ping_s=60,
    check_s=0.4, heartbeat_s=4, pull_s=10, close_s=1,
)  # fmt: skip
"""What breaks is opened again soon; what is only slow is waited for."""
HASTY = replace(QUICK, connect_s=2, call_s=1, ping_s=0.5, heartbeat_s=0.5, pull_s=5)
"""Silence is taken for the end, soon: on a slow machine it may be, at any time."""


class BusStage(Protocol):
    """A bus, and what can happen to it."""

    bus: Bus

    async def away(self) -> None: ...
    async def back(self) -> None: ...
    async def remake(self, bucket: str) -> None: ...
    async def garble(self, subject: str) -> None: ...
    def counted(self, what: str) -> int: ...


class InMemory:
    def __init__(self) -> None:
        self.fake = FakeBus(CLUSTER)
        self.bus: Bus = self.fake

    async def away(self) -> None:
        self.fake.away()

    async def back(self) -> None:
        self.fake.back()

    async def remake(self, bucket: str) -> None:
        self.fake.remake(bucket)

    async def garble(self, subject: str) -> None:
        self.fake.garble(subject)

    def counted(self, what: str) -> int:
        return self.fake.counted(what)


class OnNats:
    def __init__(self, bus: NatsBus, server: NatsServer, counts: Counter[str]) -> None:
        self.bus: Bus = bus
        self.server = server
        self._counts = counts

    async def away(self) -> None:
        await self.server.kill()
        await until(lambda: not self.bus.connected)

    async def back(self) -> None:
        await self.server.start()
        await within(self.bus.connection_generation(0))

    async def remake(self, bucket: str) -> None:
        seen = await self.bus.connection_generation(0)
        async with by_hand(self.server) as client:
            await client.jetstream().delete_stream(f"KV_{bucket}")
        await within(self.bus.connection_generation(seen))

    async def garble(self, subject: str) -> None:
        async with by_hand(self.server) as client:
            await client.publish(subject, b"{}", headers={"ce-id": "1", "ce-epoch": "long ago"})

    def counted(self, what: str) -> int:
        return self._counts[what]


@asynccontextmanager
async def in_memory(folder: Path) -> AsyncGenerator[BusStage]:
    del folder
    yield InMemory()


@asynccontextmanager
async def on_nats(folder: Path, settings: BusSettings = QUICK) -> AsyncGenerator[OnNats]:
    counts: Counter[str] = Counter()
    async with (
        open_nats(folder / "nats") as server,
        open_bus(
            replace(settings, url=server.url), "test", "0", lambda what: counts.update([what])
        ) as bus,
    ):
        await within(bus.connection_generation(0))
        yield OnNats(bus, server, counts)


Open = Callable[[Path], AbstractAsyncContextManager[BusStage]]
BOTH: dict[str, Open] = {"memory": in_memory, "nats": on_nats}


@asynccontextmanager
async def by_hand(server: NatsServer, **options: Any) -> AsyncGenerator[Client]:
    """A client of nats-py, as anybody would use it."""
    client = await nats.connect(server.url, **options)
    try:
        yield client
        await client.flush()
    finally:
        await client.close()


def an_envelope(sequence: int, *, source: str = "/tessera/test/0", id_: str = "") -> Envelope:
    return Envelope(
        id=id_ or f"{source}-{sequence}", source=source, type="dev.tessera.test.told",
        time="2026-11-21T12:00:00Z", epoch=1, sequence=sequence,
    )  # fmt: skip


async def publish_once(bus: Bus, number: int, node: str = "n") -> None:
    """Usage of a node. Raises BusAway, as on a slow machine it may at any time."""
    await bus.publish(usage(CLUSTER, node), an_envelope(number), str(number).encode())


async def put_once(bus: Bus, key: str, number: int, bucket: str = DEVICES_BUCKET) -> None:
    """A value of a key. Raises BusAway, as on a slow machine it may at any time."""
    envelope = an_envelope(number, source=f"/tessera/agent/{key}")
    await bus.put(bucket, key, envelope, str(number).encode())


async def publish(bus: Bus, *numbers: int, node: str = "n") -> None:
    """Usage of a node, once for each number, as often as it takes."""
    for number in numbers:
        await _insist(partial(publish_once, bus, number, node))


async def put(bus: Bus, key: str, number: int, bucket: str = DEVICES_BUCKET) -> None:
    """A value of a key, as often as it takes."""
    await _insist(partial(put_once, bus, key, number, bucket))


async def _insist(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await act()
            except BusAway:
                await asyncio.sleep(0.05)


async def within(waited: Any) -> Any:
    """What is waited for, or a failure."""
    async with asyncio.timeout(PATIENCE_S):
        return await waited


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


async def read(messages: AsyncIterator[T], count: int) -> list[T]:
    """The next few messages."""
    return [await within(anext(messages)) for _ in range(count)]


async def numbers(messages: AsyncIterator[Message], count: int) -> list[int]:
    return [int(each.data) for each in await read(messages, count)]


async def values(watch: AsyncIterator[Message | Resync], count: int) -> dict[str, int]:
    """The next values, which no Resync interrupts, by the end of their subject."""
    found = await read(watch, count)
    assert all(isinstance(each, Message) for each in found), found
    return {
        each.subject.removeprefix(_VALUES): int(each.data)
        for each in found
        if isinstance(each, Message)
    }


async def comes(watch: AsyncIterator[Message | Resync], wanted: Mapping[str, int]) -> None:
    """The watch yields these values and no others; it may begin again before it has."""
    seen: dict[str, int] = {}
    while seen != wanted:
        each = await within(anext(watch))
        if isinstance(each, Resync):
            seen.clear()
        else:
            seen |= {each.subject.removeprefix(_VALUES): int(each.data)}


async def resync(watch: AsyncIterator[Message | Resync]) -> Resync:
    """The next Resync; values before it are passed over."""
    async with asyncio.timeout(PATIENCE_S):
        async for each in watch:
            if isinstance(each, Resync):
                return each
    raise AssertionError("a watch never ends")
