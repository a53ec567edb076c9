"""From an outbox to a durable reader while the server dies again and again: each event at least
once, and the last state of each key."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_embedded.nats_server import NatsServer
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.api import Bus, Message
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.latest_by_source import LatestBySource
from tessera_runtime.bus.outbox import OutboxSettings, open_outbox
from tessera_runtime.clock import SystemClock
from tessera_schema.subjects import allocation
from tests.bus.buses import CLUSTER, HASTY, on_nats, until

EVENTS = 300
KEYS = 5
DEVICES = "tessera-devices"
EAGER = OutboxSettings(retry_first_s=0.02, retry_most_s=0.1)


async def restart_often(server: NatsServer, done: asyncio.Event) -> None:
    for _ in range(4):
        await asyncio.sleep(0.15)
        await server.restart()
    done.set()


async def read_all(bus: Bus, seen: list[int]) -> None:
    async with bus.subscribe(allocation(CLUSTER, "*", "*", "*"), durable="monitor") as messages:
        while True:
            seen.append(int((await anext(messages)).data))


async def watch_all(bus: Bus, latest: LatestBySource[int]) -> None:
    async with bus.watch(DEVICES) as watch:
        async for each in watch:
            if isinstance(each, Message):
                latest.offer(each.subject.split(".")[4], each.envelope, int(each.data))


@pytest.mark.parametrize("pause_s", [0, 0.002])
async def test_whatever_dies(pause_s: float, tmp_path: Path) -> None:
    seen: list[int] = []
    latest: LatestBySource[int] = LatestBySource()
    restarted = asyncio.Event()
    settings = replace(HASTY, batch=16, ack_s=1)
    async with (
        on_nats(tmp_path, settings) as world,
        open_bus(replace(settings, url=world.server.url), "test", "1") as other,
        running_in_background(read_all(other, seen), "reader"),
        running_in_background(watch_all(other, latest), "watch"),
        open_outbox(world.bus, SystemClock(), "test", "0", settings=EAGER) as outbox,
        running_in_background(restart_often(world.server, restarted), "restarts"),
    ):
        for number in range(EVENTS):
            outbox.publish(
                allocation(CLUSTER, "team", f"uid-{number}", "granted"),
                "dev.tessera.allocation.granted", str(number).encode(),
            )  # fmt: skip
            outbox.publish_state(
                DEVICES, f"n{number % KEYS}.v", "dev.tessera.test.state", str(number).encode()
            )
            await asyncio.sleep(pause_s)
        await restarted.wait()
        await until(lambda: set(seen) == set(range(EVENTS)))
        last = {f"n{key}": EVENTS - KEYS + key for key in range(KEYS)}
        await until(lambda: {key: latest.get(key) for key in last} == last)
