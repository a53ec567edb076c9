"""`nats service ls`, `info` and `stats` as the nats tool asks, with plain nats-py; and requests."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from nats.aio.client import Client
from nats.errors import NoRespondersError

from tessera_runtime.bus.api import MessageRejected
from tessera_runtime.bus.client import NatsBus
from tessera_runtime.bus.micro_service import MicroService, endpoint_subject, open_micro, request
from tessera_runtime.bus.request_queue import REQUESTS_MOST_BYTES, Delivery, Inbox
from tessera_runtime.clock import SystemClock
from tessera_runtime.errors import BusAway
from tests.bus.buses import CLUSTER, PATIENCE_S, QUICK, OnNats, by_hand, on_nats

SERVICE = MicroService(
    name="tessera-echo", instance="node-1", version="1.2.3", description="Repeats."
)
REPEAT = endpoint_subject(CLUSTER, "echo", "repeat")


async def repeat(data: bytes) -> bytes:
    if data == b"for ever":
        await asyncio.sleep(3600)
    if not data:
        raise ValueError("data: b'': write something")
    return data * 2


class Served:
    def __init__(self, world: OnNats, bus: NatsBus) -> None:
        self.world = world
        self.bus = bus


@asynccontextmanager
async def an_echo(folder: Path, call_s: float = QUICK.call_s) -> AsyncGenerator[Served]:
    async with on_nats(folder, replace(QUICK, call_s=call_s)) as world:
        assert isinstance(world.bus, NatsBus)
        async with open_micro(world.bus, SystemClock(), SERVICE, {"repeat": repeat}):
            yield Served(world, world.bus)


async def answer_of(client: Client, subject: str, data: bytes = b"") -> Any:
    """The first answer, once there is anybody."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return json.loads((await client.request(subject, data, timeout=20)).data)
            except NoRespondersError:
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("end", ["", ".tessera-echo", ".tessera-echo.node-1"])
async def test_every_kind_of_ping_is_answered(end: str, tmp_path: Path) -> None:
    async with an_echo(tmp_path) as served, by_hand(served.world.server) as client:
        assert await answer_of(client, f"$SRV.PING{end}") == {
            "type": "io.nats.micro.v1.ping_response", "name": "tessera-echo", "id": "node-1",
            "version": "1.2.3", "metadata": {},
        }  # fmt: skip


async def test_info_names_the_endpoints(tmp_path: Path) -> None:
    async with an_echo(tmp_path) as served, by_hand(served.world.server) as client:
        info = await answer_of(client, "$SRV.INFO.tessera-echo")
        assert info["type"] == "io.nats.micro.v1.info_response"
        assert info["description"] == "Repeats."
        assert info["endpoints"] == [
            {"name": "repeat", "subject": REPEAT, "queue_group": "q", "metadata": {}}
        ]


async def test_stats_count_requests_and_errors(tmp_path: Path) -> None:
    async with an_echo(tmp_path) as served, by_hand(served.world.server) as client:
        await answer_of(client, "$SRV.PING.tessera-echo")
        assert await request(served.bus, "echo", "repeat", b"ab") == b"abab"
        with pytest.raises(
            MessageRejected, match="echo does not answer repeat: data: b'': write some"
        ):
            await request(served.bus, "echo", "repeat")
        stats = await answer_of(client, "$SRV.STATS.tessera-echo")
        [endpoint] = stats["endpoints"]
        assert (endpoint["num_requests"], endpoint["num_errors"]) == (2, 1)
        assert endpoint["last_error"] == "data: b'': write something"
        assert stats["started"].endswith("Z")


async def test_an_answer_that_takes_too_long_is_an_error(tmp_path: Path) -> None:
    async with an_echo(tmp_path, call_s=1) as served, by_hand(served.world.server) as client:
        await answer_of(client, "$SRV.PING.tessera-echo")
        answer = await client.request(REPEAT, b"for ever", timeout=PATIENCE_S)
        assert answer.headers is not None
        assert answer.headers["Nats-Service-Error-Code"] == "504"


async def test_a_service_that_is_not_there_is_away(tmp_path: Path) -> None:
    async with an_echo(tmp_path) as served:
        with pytest.raises(BusAway, match="nobody answers"):
            await request(served.bus, "oracle", "repeat")


async def test_it_is_listed_again_after_a_restart(tmp_path: Path) -> None:
    async with an_echo(tmp_path) as served:
        await served.world.server.restart()
        async with by_hand(served.world.server) as client:
            assert (await answer_of(client, "$SRV.PING"))["id"] == "node-1"


def test_requests_that_wait_have_a_bound() -> None:
    inbox = Inbox("tessera.ask.demo.echo.repeat", REQUESTS_MOST_BYTES)
    for number in range(10_000):
        inbox.put(a_request(str(number).encode() * 200))
    kept = inbox.drain()
    assert kept[0].data.startswith(b"0")
    assert sum(len(each.data) for each in kept) < REQUESTS_MOST_BYTES
    inbox.put(a_request(bytes(REQUESTS_MOST_BYTES // 2)))
    inbox.put(BusAway("the link is lost"))
    assert len(inbox.drain()) == 1


def test_what_a_stream_delivers_is_never_dropped() -> None:
    inbox = Inbox("_INBOX.x")
    for _ in range(20):
        inbox.put(a_request(bytes(REQUESTS_MOST_BYTES // 4)))
    assert len(inbox.drain()) == 20


async def test_requests_are_taken_again_when_others_were_answered() -> None:
    inbox = Inbox("tessera.ask.demo.echo.repeat", REQUESTS_MOST_BYTES)
    for _ in range(5):
        for _ in range(6):
            inbox.put(a_request(bytes(REQUESTS_MOST_BYTES // 4)))
        for _ in range(3):
            await inbox.get(1)
        assert inbox.empty


def a_request(data: bytes) -> Delivery:
    return Delivery("tessera.ask.demo.echo.repeat", {}, data, "_INBOX.answer")
