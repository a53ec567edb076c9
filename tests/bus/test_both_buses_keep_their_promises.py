"""What `tessera_runtime.bus.api` says, on the bus in memory and on a real NATS."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_runtime.bus.api import Bus, Message, MessageRejected, PublishError, Resync
from tessera_runtime.errors import BusAway
from tessera_schema.subjects import allocation, device, every, usage
from tests.bus.buses import (
    BOTH,
    CLUSTER,
    PATIENCE_S,
    Open,
    an_envelope,
    numbers,
    publish,
    publish_once,
    put,
    put_once,
    read,
    resync,
    until,
    values,
    within,
)  # fmt: skip

DEVICES = "tessera-devices"
ALL = every(CLUSTER)


@pytest.fixture(params=sorted(BOTH))
def open_stage(request: pytest.FixtureRequest) -> Open:
    return BOTH[request.param]


async def test_a_message_reaches_who_reads(open_stage: Open, tmp_path: Path) -> None:
    async with open_stage(tmp_path) as world, world.bus.subscribe(ALL) as messages:
        envelope = an_envelope(1)
        await world.bus.publish(usage(CLUSTER, "gpu-1.example.org"), envelope, b'{"a": 1}')
        [got] = await read(messages, 1)
        assert (got.subject, got.envelope, got.data) == (
            "tessera.v1.c.usage.gpu-1_example_org", envelope, b'{"a": 1}',
        )  # fmt: skip


async def test_the_trace_travels_with_it(open_stage: Open, tmp_path: Path) -> None:
    async with open_stage(tmp_path) as world, world.bus.subscribe(ALL) as messages:
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        await world.bus.publish(
            usage(CLUSTER, "n"), replace(an_envelope(1), traceparent=trace), b"1"
        )
        [got] = await read(messages, 1)
        assert got.envelope.traceparent == trace


async def test_several_go_at_once_and_each_has_its_answer(open_stage: Open, tmp_path: Path) -> None:
    def a_message(number: int, subject: str = usage(CLUSTER, "n")) -> Message:
        return Message(subject=subject, envelope=an_envelope(number), data=str(number).encode())

    several = [a_message(1), a_message(2, "orders.new"), *map(a_message, range(3, 70))]
    async with open_stage(tmp_path) as world, world.bus.subscribe(ALL) as reader:
        answers = await answered(world.bus, several)
        assert isinstance(answers[1], MessageRejected)
        assert {answer for answer in answers if answer is not answers[1]} == {None}
        assert await numbers(reader, 68) == [1, *range(3, 70)]
        assert await world.bus.publish_all([]) == []


async def answered(bus: Bus, several: list[Message]) -> Sequence[PublishError | None]:
    """As often as it takes: those that were taken before are repeats by their ids."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answers = await bus.publish_all(several)
            if not any(isinstance(answer, BusAway) for answer in answers):
                return answers
            await asyncio.sleep(0.05)


async def test_several_are_all_reported_that_the_bus_is_away(
    open_stage: Open, tmp_path: Path
) -> None:
    async with open_stage(tmp_path) as world:
        several = [
            Message(subject=usage(CLUSTER, "n"), envelope=an_envelope(number), data=b"")
            for number in (1, 2)
        ]
        await world.away()
        answers = await world.bus.publish_all(several)
        assert [type(answer) for answer in answers] == [BusAway, BusAway]


async def test_a_header_cannot_add_headers(open_stage: Open, tmp_path: Path) -> None:
    async with open_stage(tmp_path) as world, world.bus.subscribe(ALL) as messages:
        forged = replace(an_envelope(1), type="dev.tessera.test\r\nce-source: /tessera/other/0")
        await world.bus.publish(usage(CLUSTER, "n"), forged, b"1")
        [got] = await read(messages, 1)
        assert got.envelope.source == "/tessera/test/0"


async def test_an_equal_id_is_reported_once(open_stage: Open, tmp_path: Path) -> None:
    async with open_stage(tmp_path) as world, world.bus.subscribe(ALL) as messages:
        await publish(world.bus, 1, 1, 2)
        assert await numbers(messages, 2) == [1, 2]


async def test_messages_begins_now(open_stage: Open, tmp_path: Path) -> None:
    async with open_stage(tmp_path) as world:
        await publish(world.bus, 1, 2)
        async with world.bus.subscribe(ALL) as messages:
            await publish(world.bus, 3)
            assert await numbers(messages, 1) == [3]


async def test_only_what_matches_is_read(open_stage: Open, tmp_path: Path) -> None:
    async with (
        open_stage(tmp_path) as world,
        world.bus.subscribe(usage(CLUSTER, "b")) as of_one,
        world.bus.subscribe(allocation(CLUSTER, "*", "*", "released")) as releases,
    ):
        await publish(world.bus, 1, node="a")
        await publish(world.bus, 2, node="b")
        for number, what in ((3, "granted"), (4, "released")):
            await world.bus.publish(
                allocation(CLUSTER, "team", "uid", what), an_envelope(number), str(number).encode()
            )
        assert await numbers(of_one, 1) == [2]
        assert await numbers(releases, 1) == [4]


async def test_giving_up_waiting_loses_nothing(open_stage: Open, tmp_path: Path) -> None:
    async with (
        open_stage(tmp_path) as world,
        world.bus.subscribe(ALL) as messages,
        world.bus.watch(DEVICES) as watch,
    ):
        assert isinstance((await read(watch, 1))[0], Resync)
        for asking in (messages, watch):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(asking)
        await publish(world.bus, 1)
        assert await numbers(messages, 1) == [1]
        await put(world.bus, "n.v", 2)
        assert await values(watch, 1) == {"n.v": 2}


async def test_a_durable_reader_finds_what_came_while_it_was_away(
    open_stage: Open, tmp_path: Path
) -> None:
    async with open_stage(tmp_path) as world:
        await publish(world.bus, 1)
        async with world.bus.subscribe(ALL, durable="monitor") as messages:
            assert await numbers(messages, 1) == [1]
            await publish(world.bus, 2)
            assert await numbers(messages, 1) == [2]  # 1 is done, 2 is in hand
        await publish(world.bus, 3)
        async with world.bus.subscribe(ALL, durable="monitor") as messages:
            # What was in hand comes again, at once or in the end.
            assert sorted(await numbers(messages, 2)) == [2, 3]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await anext(messages)


async def test_a_watch_says_the_last_values_and_then_each_change(
    open_stage: Open, tmp_path: Path
) -> None:
    async with open_stage(tmp_path) as world:
        for key, number in (("a.v", 1), ("b.v", 2), ("a.v", 3)):
            await put(world.bus, key, number)
        async with world.bus.watch(DEVICES) as watch:
            assert isinstance((await read(watch, 1))[0], Resync)
            assert await values(watch, 2) == {"a.v": 3, "b.v": 2}
            await put(world.bus, "a.v", 4)
            await put(world.bus, "c.v", 5)
            assert await values(watch, 2) == {"a.v": 4, "c.v": 5}


async def test_a_watch_may_be_of_some_keys(open_stage: Open, tmp_path: Path) -> None:
    async with open_stage(tmp_path) as world:
        await put(world.bus, "a.v", 1)
        await put(world.bus, "a.w", 2)
        async with world.bus.watch(DEVICES, "*.w") as watch:
            assert isinstance((await read(watch, 1))[0], Resync)
            await put(world.bus, "b.v", 3)
            await put(world.bus, "b.w", 4)
            assert await values(watch, 2) == {"a.w": 2, "b.w": 4}


async def test_values_are_visible_on_their_subject_too(open_stage: Open, tmp_path: Path) -> None:
    async with (
        open_stage(tmp_path) as world,
        world.bus.subscribe(device(CLUSTER, "*", "*")) as messages,
    ):
        await put(world.bus, "a.v", 1)
        [got] = await read(messages, 1)
        assert (got.subject, got.data) == (device(CLUSTER, "a", "v"), b"1")


async def test_a_bucket_made_again_begins_again(open_stage: Open, tmp_path: Path) -> None:
    async with open_stage(tmp_path) as world, world.bus.watch(DEVICES) as watch:
        await put(world.bus, "a.v", 1)
        await resync(watch)
        assert await values(watch, 1) == {"a.v": 1}
        await world.remake(DEVICES)
        await put(world.bus, "b.v", 2)
        await resync(watch)
        assert await values(watch, 1) == {"b.v": 2}
        async with world.bus.watch(DEVICES) as other:
            await resync(other)
            assert await values(other, 1) == {"b.v": 2}


async def test_publishing_fails_at_once_while_the_bus_is_away(
    open_stage: Open, tmp_path: Path
) -> None:
    async with open_stage(tmp_path) as world:
        assert world.bus.connected
        await world.away()
        assert not world.bus.connected
        with pytest.raises(BusAway):
            await publish_once(world.bus, 1)
        with pytest.raises(BusAway):
            await put_once(world.bus, "a.v", 1)


async def test_readers_go_on_when_the_bus_is_back(open_stage: Open, tmp_path: Path) -> None:
    async with (
        open_stage(tmp_path) as world,
        world.bus.subscribe(allocation(CLUSTER, "*", "*", "*")) as messages,
        world.bus.watch(DEVICES) as watch,
    ):
        await put(world.bus, "a.v", 1)
        await resync(watch)
        assert await values(watch, 1) == {"a.v": 1}
        for number in (1, 2):
            await world.bus.publish(
                allocation(CLUSTER, "t", "u", "granted"), an_envelope(number), str(number).encode()
            )
        assert await numbers(messages, 1) == [1]
        await world.away()
        await world.back()
        await put(world.bus, "b.v", 2)
        await resync(watch)
        assert await values(watch, 2) == {"a.v": 1, "b.v": 2}
        assert await numbers(messages, 1) == [2]  # neither lost nor repeated


async def test_who_waits_for_renewal_is_reported_of_both_kinds(
    open_stage: Open, tmp_path: Path
) -> None:
    async with open_stage(tmp_path) as world:
        first = await within(world.bus.connection_generation(0))
        await put(world.bus, "a.v", 1)
        await world.remake(DEVICES)
        second = await within(world.bus.connection_generation(first))
        await world.away()
        await world.back()
        third = await within(world.bus.connection_generation(second))
        assert 0 < first < second < third


async def test_messages_without_an_envelope_are_dropped_and_counted(
    open_stage: Open, tmp_path: Path
) -> None:
    async with open_stage(tmp_path) as world, world.bus.subscribe(ALL) as messages:
        await world.garble(usage(CLUSTER, "n"))
        await publish(world.bus, 1)
        assert await numbers(messages, 1) == [1]
        await until(lambda: world.counted("bad_envelope") == 1)


async def test_a_message_that_is_too_large_is_refused(open_stage: Open, tmp_path: Path) -> None:
    async with open_stage(tmp_path) as world, world.bus.subscribe(ALL) as messages:
        with pytest.raises(MessageRejected, match=r"tessera\.v1\.c\.usage\.n: \d+ bytes.* takes"):
            await world.bus.publish(usage(CLUSTER, "n"), an_envelope(1), bytes((1 << 20) + 1))
        with pytest.raises(MessageRejected, match="bytes"):
            await world.bus.put(DEVICES, "a.v", an_envelope(1), bytes((1 << 20) + 1))
        await publish(world.bus, 2)
        assert await numbers(messages, 1) == [2]


async def test_what_nothing_keeps_is_refused(open_stage: Open, tmp_path: Path) -> None:
    async with open_stage(tmp_path) as world:
        for subject in ("tessera.v2.c.usage.n", device(CLUSTER, "n", "v"), "orders.new"):
            with pytest.raises(MessageRejected, match="no stream keeps it"):
                await world.bus.publish(subject, an_envelope(1), b"")
        with pytest.raises(MessageRejected, match="write tokens without spaces"):
            await publish(world.bus, 1, node="a b")
        with pytest.raises(MessageRejected, match=r"key 'a\.\.b': write letters"):
            await put(world.bus, "a..b", 1)
        with pytest.raises(MessageRejected, match="bucket 'mine'"):
            await world.bus.put("mine", "a", an_envelope(1), b"")
        with pytest.raises(MessageRejected, match="bucket 'mine'"):
            async with world.bus.watch("mine"):
                pass
        with pytest.raises(MessageRejected, match=r"subject 'orders\.>'"):
            async with world.bus.subscribe("orders.>"):
                pass
