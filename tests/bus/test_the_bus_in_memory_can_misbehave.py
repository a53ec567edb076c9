"""What tests ask of FakeBus besides a Bus's promises: faults on demand, and what was said."""

import asyncio

import pytest

from tessera_runtime.bus.api import Resync
from tessera_runtime.errors import BusAway
from tessera_schema.subjects import DEVICES_BUCKET, every, usage
from tessera_testing.bus import FakeBus
from tests.bus.buses import CLUSTER, numbers, publish, publish_once, put, read, values

pytestmark = pytest.mark.looptime


async def test_messages_can_come_twice() -> None:
    bus = FakeBus(CLUSTER)
    async with bus.subscribe(every(CLUSTER)) as messages, bus.watch(DEVICES_BUCKET) as watch:
        await read(watch, 1)
        await publish(bus, 1)
        await put(bus, "a.v", 2)
        bus.repeat(every(CLUSTER))
        assert await numbers(messages, 4) == [1, 2, 1, 2]
        assert [await values(watch, 1), await values(watch, 1)] == [{"a.v": 2}] * 2


async def test_an_answer_can_be_lost_after_the_message_was_taken() -> None:
    bus = FakeBus(CLUSTER)
    bus.lose_answers(1)
    with pytest.raises(BusAway):
        await publish_once(bus, 1)
    await publish(bus, 1)
    assert [message.data for message in bus.said(usage(CLUSTER, "*"))] == [b"1"]


async def test_what_was_said_and_what_is_stored_can_be_visible() -> None:
    bus = FakeBus(CLUSTER)
    for key, number in (("a.v", 1), ("b.v", 2), ("a.v", 3)):
        await put(bus, key, number)
    assert [int(message.data) for message in bus.said()] == [1, 2, 3]
    assert {k: int(n.data) for k, n in bus.values(DEVICES_BUCKET, "*.v").items()} == {
        "b.v": 2, "a.v": 3,
    }  # fmt: skip


async def test_it_may_begin_away_for_as_long_as_a_test_likes() -> None:
    bus = FakeBus(CLUSTER, connected=False)
    async with bus.watch(DEVICES_BUCKET) as watch:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(86_400):
                await anext(watch)
        bus.back()
        assert isinstance(await anext(watch), Resync)
