"""A real NATS that is killed, paused, emptied and changed by hand."""

import asyncio
from contextlib import suppress
from dataclasses import replace as replace_config
from pathlib import Path

import pytest
from msgspec.structs import replace
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, StreamConfig
from nats.js.errors import BadRequestError

from tessera_embedded.nats_server import open_nats
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.outbox import Outbox, OutboxSettings, open_outbox
from tessera_runtime.bus.streams import VALUE_S
from tessera_runtime.clock import SystemClock
from tessera_runtime.errors import BusAway
from tessera_schema.subjects import every, usage
from tests.bus.buses import (
    CLUSTER,
    HASTY,
    PATIENCE_S,
    QUICK,
    OnNats,
    by_hand,
    comes,
    numbers,
    on_nats,
    publish,
    publish_once,
    put,
    read,
    resync,
    until,
    values,
    within,
)  # fmt: skip
from tests.bus.proxy import open_proxy

DEVICES = "tessera-devices"
ALL = every(CLUSTER)
EAGER = OutboxSettings(retry_first_s=0.05, retry_most_s=0.2)


def publish_state(outbox: Outbox, key: str, number: int) -> None:
    outbox.publish_state(DEVICES, key, "dev.tessera.test.state", str(number).encode())


async def test_opening_does_not_wait_for_nats(tmp_path: Path) -> None:
    async with open_nats(tmp_path / "nats") as server:
        await server.kill()
        settings = replace(QUICK, url=server.url)
        async with (
            open_bus(settings, "test", "0") as bus,
            bus.watch(DEVICES) as watch,
            bus.subscribe(ALL) as messages,
            open_outbox(bus, SystemClock(), "test", "0", settings=EAGER) as outbox,
        ):
            assert not bus.connected
            outbox.publish(usage(CLUSTER, "n"), "dev.tessera.test.told", b"1")
            publish_state(outbox, "a.v", 2)
            with pytest.raises(BusAway):
                await publish_once(bus, 3)
            await server.start()
            await resync(watch)
            await comes(watch, {"a.v": 2})
            await within(outbox.emptied())
            await publish(bus, 4)
            async with asyncio.timeout(60):
                while (await numbers(messages, 1)) != [4]:
                    pass


async def test_a_server_that_lost_its_disk_is_filled_again(tmp_path: Path) -> None:
    async with (
        on_nats(tmp_path) as world,
        world.bus.watch(DEVICES) as watch,
        world.bus.subscribe(ALL, durable="monitor") as messages,
        open_outbox(world.bus, SystemClock(), "agent", "0", settings=EAGER) as outbox,
    ):
        publish_state(outbox, "a.v", 1)
        await resync(watch)
        await comes(watch, {"a.v": 1})
        assert await numbers(messages, 1) == [1]
        await world.server.restart(forget=True)
        await resync(watch)
        await comes(watch, {"a.v": 1})
        await publish(world.bus, 5)
        while await numbers(messages, 1) != [5]:
            pass


async def test_a_bucket_made_again_by_hand_is_noticed_and_mended(tmp_path: Path) -> None:
    async with (
        on_nats(tmp_path) as world,
        by_hand(world.server) as client,
        world.bus.watch(DEVICES) as watch,
        world.bus.subscribe(f"tessera.v1.{CLUSTER}.device.>") as messages,
        open_outbox(world.bus, SystemClock(), "agent", "0", settings=EAGER) as outbox,
    ):
        publish_state(outbox, "a.v", 1)
        await resync(watch)
        await comes(watch, {"a.v": 1})
        assert [n.subject for n in await read(messages, 1)] == ["tessera.v1.c.device.a.v"]
        js = client.jetstream()
        await make_again(js)
        await resync(watch)
        await comes(watch, {"a.v": 1})
        assert [n.subject for n in await read(messages, 1)] == ["tessera.v1.c.device.a.v"]
        async with asyncio.timeout(PATIENCE_S):
            while (config := (await js.stream_info(f"KV_{DEVICES}")).config).republish is None:
                await asyncio.sleep(0.05)
        assert (config.max_msgs_per_subject, config.republish.dest) == (
            1, "tessera.v1.c.device.>",
        )  # fmt: skip


async def make_again(js: JetStreamContext) -> None:
    """The bucket with another configuration, unless the bus makes it first: then once more."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await js.delete_key_value(DEVICES)
            with suppress(BadRequestError):
                await js.create_key_value(bucket=DEVICES, history=5)
                return


async def test_a_purged_bucket_is_filled_again(tmp_path: Path) -> None:
    async with (
        on_nats(tmp_path) as world,
        by_hand(world.server) as client,
        world.bus.watch(DEVICES) as watch,
        open_outbox(world.bus, SystemClock(), "agent", "0", settings=EAGER) as outbox,
    ):
        publish_state(outbox, "a.v", 1)
        await resync(watch)
        await comes(watch, {"a.v": 1})
        looks = await client.subscribe(f"$JS.API.STREAM.INFO.KV_{DEVICES}")
        for _ in range(3):  # two in each look: the full bucket was seen
            await looks.next_msg(PATIENCE_S)
        await client.jetstream().purge_stream(f"KV_{DEVICES}")
        await resync(watch)
        await comes(watch, {"a.v": 1})


async def test_a_deleted_key_says_nothing(tmp_path: Path) -> None:
    async with (
        on_nats(tmp_path) as world,
        by_hand(world.server) as client,
        world.bus.watch(DEVICES) as watch,
    ):
        await put(world.bus, "a.v", 1)
        await resync(watch)
        await comes(watch, {"a.v": 1})
        store = await client.jetstream().key_value(DEVICES)
        await store.delete("a.v")
        await put(world.bus, "b.v", 2)
        await comes(watch, {"b.v": 2})
        assert world.counted("bad_envelope") == 0


async def test_readers_whose_consumer_is_deleted_go_on(tmp_path: Path) -> None:
    async with (
        on_nats(tmp_path) as world,
        by_hand(world.server) as client,
        world.bus.watch(DEVICES) as watch,
        world.bus.subscribe(usage(CLUSTER, "*")) as messages,
    ):
        await put(world.bus, "a.v", 1)
        await resync(watch)
        await comes(watch, {"a.v": 1})
        await publish(world.bus, 1)
        assert await numbers(messages, 1) == [1]
        js = client.jetstream()
        for stream in (f"KV_{DEVICES}", "TESSERA_USAGE"):
            for consumer in await js.consumers_info(stream):
                await js.delete_consumer(stream, consumer.name)
        await publish(world.bus, 2)
        assert await numbers(messages, 1) == [2]
        await resync(watch)
        await comes(watch, {"a.v": 1})


async def test_more_than_a_batch_is_read_in_one_go(tmp_path: Path) -> None:
    settings = replace(QUICK, batch=3)
    async with (
        on_nats(tmp_path, settings) as world,
        world.bus.subscribe(ALL) as messages,
        world.bus.subscribe(ALL, durable="monitor") as durable,
        world.bus.watch(DEVICES) as watch,
    ):
        await publish(world.bus, *range(20))
        assert await numbers(messages, 20) == list(range(20))
        assert await numbers(durable, 20) == list(range(20))
        for number in range(10):
            await put(world.bus, f"n{number}.v", number)
        await resync(watch)
        assert await values(watch, 10) == {f"n{number}.v": number for number in range(10)}
        assert world.counted("read_anew") == 0


async def test_a_quiet_reader_is_not_a_dead_one(tmp_path: Path) -> None:
    settings = replace(QUICK, heartbeat_s=2, pull_s=4.5)
    async with (
        on_nats(tmp_path, settings) as world,
        world.bus.watch(DEVICES) as watch,
        world.bus.watch(DEVICES) as nobody_reads,
    ):
        for one in (watch, nobody_reads):
            await resync(one)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(6):
                await anext(watch)
        await put(world.bus, "a.v", 1)
        for one in (watch, nobody_reads):
            await comes(one, {"a.v": 1})
        assert world.counted("read_anew") == 0


async def test_a_silent_network_is_noticed(tmp_path: Path) -> None:
    async with (
        open_nats(tmp_path / "nats") as server,
        open_proxy(server.port) as proxy,
        open_bus(replace(HASTY, url=f"nats://127.0.0.1:{proxy.port}"), "test", "0") as bus,
        bus.watch(DEVICES) as watch,
        bus.subscribe(usage(CLUSTER, "*")) as messages,
    ):
        await within(bus.connection_generation(0))
        await put(bus, "a.v", 1)
        await resync(watch)
        await comes(watch, {"a.v": 1})
        await publish(bus, 1)
        assert await numbers(messages, 1) == [1]
        proxy.fall_silent()
        with pytest.raises(BusAway):
            await publish_once(bus, 2)
        await until(lambda: not bus.connected)
        proxy.speak()
        await resync(watch)
        await comes(watch, {"a.v": 1})
        await publish(bus, 3)
        assert (await numbers(messages, 1))[0] in (2, 3)  # 2 may have come through


async def test_a_server_that_hangs_is_taken_for_away(tmp_path: Path) -> None:
    async with on_nats(tmp_path, HASTY) as world, world.bus.watch(DEVICES) as watch:
        await resync(watch)
        await world.server.pause()
        with pytest.raises(BusAway):
            await publish_once(world.bus, 1)
        await until(lambda: not world.bus.connected)
        await world.server.resume()
        await within(world.bus.connection_generation(0))
        await put(world.bus, "a.v", 2)
        await resync(watch)
        await comes(watch, {"a.v": 2})


async def test_a_durable_reader_that_dies_gets_what_it_had_in_hand(tmp_path: Path) -> None:
    settings = replace(QUICK, ack_s=0.5)
    async with (
        on_nats(tmp_path, settings) as world,
        world.bus.subscribe(ALL, durable="monitor") as dies,
    ):
        await publish(world.bus, 1, 2)
        assert await numbers(dies, 1) == [1]
        # Another process with the same name takes over, while the first says nothing more.
        async with (
            open_bus(replace(settings, url=world.server.url), "test", "1") as other,
            other.subscribe(ALL, durable="monitor") as lives,
        ):
            came: set[int] = set()
            while came != {1, 2}:  # who is slower than `ack_s` gets one twice
                came |= set(await numbers(lives, 1))


async def _info(world: OnNats, stream: str) -> StreamConfig:
    async with by_hand(world.server) as client:
        return (await client.jetstream().stream_info(stream)).config


async def test_a_stream_that_was_changed_or_deleted_is_mended(tmp_path: Path) -> None:
    async with on_nats(tmp_path) as world, by_hand(world.server) as client:
        js = client.jetstream()
        before = await _info(world, "TESSERA_QUOTA")
        await js.update_stream(
            name="TESSERA_QUOTA", subjects=["tessera.v1.x.quota.>"], max_msgs=7, max_age=60
        )
        await js.delete_stream("TESSERA_PLAN")
        await until(lambda: world.counted("layout_mended") == 10)  # eight made, two mended
        after = await _info(world, "TESSERA_QUOTA")
        assert (after.subjects, after.max_age) == (before.subjects, before.max_age)
        assert after.max_msgs == 7  # the layout does not speak of it
        assert (await _info(world, "TESSERA_PLAN")).subjects == ["tessera.v1.*.plan.>"]


async def test_names_that_nobody_repeats_leave_a_bucket_and_keep_nobody_out(
    tmp_path: Path,
) -> None:
    """As a release before left it: full of names for ever, and closed to new ones."""
    async with on_nats(tmp_path) as world, by_hand(world.server) as client:
        js, stream = client.jetstream(), f"KV_{DEVICES}"
        before = await _info(world, stream)
        await js.update_stream(replace_config(before, discard=DiscardPolicy.NEW, max_age=0))
        await until(lambda: world.counted("layout_mended") == 9)
        after = await _info(world, stream)
        assert (after.discard, after.max_age) == (DiscardPolicy.OLD, VALUE_S)
        assert after.max_msgs_per_subject == 1


async def test_a_newer_releases_stream_is_left_alone(tmp_path: Path) -> None:
    async with on_nats(tmp_path) as world, by_hand(world.server) as client:
        await client.jetstream().update_stream(
            name="TESSERA_QUOTA", subjects=["tessera.v1.*.quota.>"], max_age=60,
            metadata={"tessera-layout": "2"},
        )  # fmt: skip
        await client.jetstream().delete_stream("TESSERA_PLAN")
        await until(lambda: world.counted("layout_mended") == 9)
        assert (await _info(world, "TESSERA_QUOTA")).max_age == 60


async def test_another_clusters_bucket_is_left_alone(tmp_path: Path) -> None:
    async with on_nats(tmp_path) as world:
        other = replace(QUICK, url=world.server.url, cluster="d")
        counts: list[str] = []
        async with open_bus(other, "test", "0", counts.append) as bus:
            await within(bus.connection_generation(0))
            assert counts.count("layout_refused") == 2
        republish = (await _info(world, f"KV_{DEVICES}")).republish
        assert republish is not None
        assert republish.dest == "tessera.v1.c.device.>"


async def test_a_stream_that_cannot_be_mended_is_reported_and_used(tmp_path: Path) -> None:
    async with open_nats(tmp_path / "nats") as server, by_hand(server) as client:
        await client.jetstream().add_stream(
            name="TESSERA_USAGE", subjects=["tessera.v1.*.usage.>"], storage="file"
        )
        counts: list[str] = []
        settings = replace(QUICK, url=server.url)
        async with (
            open_bus(settings, "test", "0", counts.append) as bus,
            bus.subscribe(ALL) as messages,
        ):
            await within(bus.connection_generation(0))
            await publish(bus, 1)
            assert await numbers(messages, 1) == [1]
            await asyncio.sleep(2 * QUICK.check_s)
            assert counts.count("layout_refused") == 1  # reported once
