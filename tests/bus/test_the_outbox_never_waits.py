"""A service publishes and goes on, whatever NATS does. On the bus in memory and a virtual clock."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime

import pytest

from tessera_runtime.bus.outbox import Outbox, OutboxSettings, open_outbox
from tessera_runtime.errors import BusAway
from tessera_schema.messages.envelope import Envelope
from tessera_schema.subjects import DEVICES_BUCKET, device, every, usage
from tessera_testing.bus import FakeBus
from tests.bus.buses import CLUSTER

pytestmark = pytest.mark.looptime
USAGE = usage(CLUSTER, "n")
SMALL = OutboxSettings(capacity=3)


class Stopped:
    """A clock that stands."""

    def time(self) -> float:
        return 1_795_000_000.25

    def time_ns(self) -> int:
        return 1_795_000_000_250_000_000


class Opened:
    def __init__(self, bus: FakeBus, outbox: Outbox, dropped: list[tuple[str, str]]) -> None:
        self.bus = bus
        self.outbox = outbox
        self.dropped = dropped

    def publish(self, *numbers: int) -> None:
        for number in numbers:
            self.outbox.publish(USAGE, "dev.tessera.test.told", str(number).encode())

    def publish_state(self, key: str, *numbers: int) -> None:
        for number in numbers:
            self.outbox.publish_state(
                DEVICES_BUCKET, key, "dev.tessera.test.state", str(number).encode()
            )

    def said(self, subject: str = ">") -> list[int]:
        return [int(message.data) for message in self.bus.said(subject)]


@asynccontextmanager
async def an_outbox(bus: FakeBus | None = None) -> AsyncGenerator[Opened]:
    bus = bus or FakeBus(CLUSTER)
    dropped: list[tuple[str, str]] = []
    async with open_outbox(
        bus, Stopped(), "test", "0", settings=SMALL,
        on_drop=lambda what, why: dropped.append((what, why)),
    ) as outbox:  # fmt: skip
        yield Opened(bus, outbox, dropped)


async def test_events_are_reported_in_order() -> None:
    async with an_outbox() as it:
        it.publish(1, 2, 3)
        assert it.said() == []
        await it.outbox.emptied()
        assert it.said() == [1, 2, 3]


async def test_the_envelope_says_who_when_and_in_which_order() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with an_outbox() as it:
        it.outbox.publish(USAGE, "dev.tessera.test.told", b"{}", trace)
        it.publish(2)
        await it.outbox.emptied()
        one, two = (message.envelope for message in it.bus.said())
    assert (one.source, one.type, one.time) == (
        "/tessera/test/0", "dev.tessera.test.told", "2026-11-18T11:06:40.250000Z",
    )  # fmt: skip
    assert (one.epoch, one.sequence, two.sequence) == (1_795_000_000_250, 1, 2)
    assert (one.traceparent, two.traceparent) == (trace, "")
    assert one.id != two.id


class Going:
    """A clock that goes as the loop's does."""

    def time(self) -> float:
        return 1_795_000_000 + asyncio.get_running_loop().time()

    def time_ns(self) -> int:
        return int(self.time() * 1e9)


async def test_a_message_bears_the_time_at_which_it_was_reported_whenever_it_goes() -> None:
    bus = FakeBus(CLUSTER, connected=False)
    async with open_outbox(bus, Going(), "test", "0") as outbox:
        began = Going().time()
        outbox.publish(USAGE, "dev.tessera.test.told", b"1")
        await asyncio.sleep(3600)
        bus.back()
        await outbox.emptied()
    [said] = bus.said()
    reported = datetime.fromisoformat(said.envelope.time).timestamp()
    assert reported == pytest.approx(began, abs=0.001)


async def test_a_signature_is_of_the_messages_own_order() -> None:
    bus = FakeBus(CLUSTER, connected=False)

    def sign(order: tuple[int, int], data: bytes) -> str:
        return f"{order[0]}/{order[1]}/{data.decode()}"

    async with open_outbox(bus, Stopped(), "test", "0", sign=sign) as outbox:
        for data in (b"a", b"b"):
            outbox.publish(USAGE, "dev.tessera.test.told", data)
        bus.back()
        await outbox.emptied()
    for message in bus.said():
        envelope = message.envelope
        assert envelope.signature == sign(envelope.order, message.data)


async def test_two_runs_of_a_service_have_different_ids() -> None:
    bus = FakeBus(CLUSTER)
    for _ in range(2):
        async with an_outbox(bus) as it:
            it.publish(1)
    assert len({message.envelope.id for message in bus.said()}) == 2


async def test_what_was_reported_while_the_bus_was_away_comes_after_it() -> None:
    async with an_outbox(FakeBus(CLUSTER, connected=False)) as it:
        it.publish(1, 2)
        await asyncio.sleep(3600)
        assert it.outbox.waiting == 2
        it.bus.back()
        await it.outbox.emptied()
        assert it.said() == [1, 2]


async def test_the_oldest_events_are_dropped_and_counted() -> None:
    async with an_outbox() as it:
        it.bus.away()
        it.publish(1, 2, 3, 4, 5)
        await asyncio.sleep(60)
        it.publish(6)
        assert it.dropped == [(USAGE, "more than 3 messages wait")] * 3
        it.bus.back()
        await it.outbox.emptied()
        assert it.said() == [4, 5, 6]


async def test_of_a_state_only_the_newest_waits() -> None:
    async with an_outbox() as it:
        it.bus.away()
        it.publish_state("a.v", 1, 2, 3)
        it.publish_state("b.v", 4)
        it.bus.back()
        await it.outbox.emptied()
        assert it.said() == [3, 4]
        assert it.dropped == []


async def test_a_lost_answer_does_not_double_a_message() -> None:
    async with an_outbox() as it:
        it.bus.lose_answers(2)
        it.publish(1)
        it.publish_state("a.v", 2)
        await it.outbox.emptied()
        assert it.said(USAGE) == [1]
        assert it.said(device(CLUSTER, "*", "*")) == [2]


async def test_states_are_reported_again_when_the_bus_lost_them() -> None:
    async with an_outbox() as it:
        it.publish_state("a.v", 1, 2)
        it.publish_state("b.v", 3)
        await it.outbox.emptied()
        it.outbox.forget_state(DEVICES_BUCKET, "b.v")
        it.bus.remake(DEVICES_BUCKET)
        await asyncio.sleep(1)
        assert {k: v.data for k, v in it.bus.values(DEVICES_BUCKET).items()} == {"a.v": b"2"}
        *_, before, again = it.bus.said(device(CLUSTER, "a", "v"))
        assert again.data == before.data
        assert again.envelope.order > before.envelope.order


async def test_a_value_is_encoded_whenever_its_state_goes() -> None:
    encoded: list[int] = []

    def encode(number: int) -> bytes:
        encoded.append(number)
        return str(number).encode()

    async with an_outbox() as it:
        it.outbox.publish_encoded_state(DEVICES_BUCKET, "a.v", "dev.tessera.test.state", 1, encode)
        it.outbox.publish_encoded_state(DEVICES_BUCKET, "a.v", "dev.tessera.test.state", 2, encode)
        await it.outbox.emptied()
        it.bus.remake(DEVICES_BUCKET)
        await asyncio.sleep(1)
        assert encoded == [2, 2]
        assert it.said() == [2, 2]


async def test_a_state_that_changes_while_it_is_sent_is_sent_once_more() -> None:
    async with an_outbox() as it, it.bus.watch(DEVICES_BUCKET) as watch:
        await anext(watch)
        it.publish_state("a.v", 1)
        seen = await anext(watch)
        it.publish_state("a.v", 2)
        await it.outbox.emptied()
        assert it.said() == [1, 2]
        assert seen == it.bus.said()[0]


async def test_a_message_that_can_never_be_sent_holds_nothing_up() -> None:
    async with an_outbox(FakeBus(CLUSTER, largest=10)) as it:
        it.outbox.publish(USAGE, "dev.tessera.test.told", bytes(11))
        it.outbox.publish("orders.new", "dev.tessera.test.told", b"1")
        it.publish(2)
        it.publish_state("a.v", 12345678901)
        await it.outbox.emptied()
        assert it.said() == [2]
        assert [what for what, _ in it.dropped] == [USAGE, "orders.new", f"{DEVICES_BUCKET}/a.v"]
        assert "11 bytes" in it.dropped[0][1]


async def test_a_traceparent_that_is_none_is_left_out() -> None:
    async with an_outbox() as it:
        for text in ("no trace", "00-" + "0" * 70_000, "\ud800", "a\r\nce-id: 1"):
            it.outbox.publish(USAGE, "dev.tessera.test.told", b"1", text)
            await it.outbox.emptied()
        assert [message.envelope.traceparent for message in it.bus.said()] == [""] * 4


async def test_what_still_waits_is_reported_at_the_end() -> None:
    bus = FakeBus(CLUSTER)
    async with an_outbox(bus) as it:
        it.publish(1, 2)
    assert [message.data for message in bus.said(every(CLUSTER))] == [b"1", b"2"]


async def cancelled_after(bus: FakeBus, *numbers: int) -> None:
    """A service that is cancelled once it has published these."""
    async with an_outbox(bus) as it:
        it.publish(*numbers)
        raise asyncio.CancelledError


async def test_what_still_waits_is_reported_when_a_service_is_cancelled() -> None:
    bus = FakeBus(CLUSTER)
    with pytest.raises(asyncio.CancelledError):
        await cancelled_after(bus, 1, 2)
    assert [message.data for message in bus.said(every(CLUSTER))] == [b"1", b"2"]


async def test_a_bus_that_takes_nothing_is_waited_for_a_second_when_a_service_is_cancelled() -> (
    None
):
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(asyncio.CancelledError):
        await cancelled_after(Picky(CLUSTER), 1)
    assert loop.time() - began == pytest.approx(1)


async def test_closing_does_not_wait_for_a_bus_that_is_away() -> None:
    bus = FakeBus(CLUSTER, connected=False)
    async with an_outbox(bus) as it:
        it.publish(1)
    assert bus.said() == []


async def test_a_failure_of_the_service_is_not_changed_by_it() -> None:
    with pytest.raises(ZeroDivisionError):
        async with an_outbox() as it:
            it.publish(1 // 0)


class Picky(FakeBus):
    """A bus that never answers for one subject and one key."""

    async def publish(self, subject: str, envelope: Envelope, data: bytes) -> None:
        if subject == USAGE:
            raise BusAway("not for you")
        await super().publish(subject, envelope, data)

    async def put(self, bucket: str, key: str, envelope: Envelope, data: bytes) -> None:
        if key == "a.v":
            raise BusAway("not for you")
        await super().put(bucket, key, envelope, data)


async def test_one_message_that_is_not_taken_does_not_hold_up_the_states() -> None:
    async with an_outbox(Picky(CLUSTER)) as it:
        it.publish(1)
        it.publish_state("a.v", 2)
        it.publish_state("b.v", 3)
        it.publish_state("c.v", 4)
        await asyncio.sleep(60)
        assert sorted(it.said()) == [3, 4]
        assert it.outbox.waiting == 2


class Crowded(FakeBus):
    """A bus that says how many messages were on their way at once, and does not take `late` when
    it comes first."""

    most = under_way = 0
    late: bytes | None = None

    async def publish(self, subject: str, envelope: Envelope, data: bytes) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0)
            if data == self.late:
                self.late = None
                raise BusAway("once more, please")
            await super().publish(subject, envelope, data)
        finally:
            self.under_way -= 1


async def test_what_waits_goes_in_bursts() -> None:
    bus, many = Crowded(CLUSTER), OutboxSettings(burst=4, gather_s=0.5)
    async with open_outbox(bus, Stopped(), "test", "0", settings=many) as outbox:
        it = Opened(bus, outbox, [])
        await asyncio.sleep(1)
        it.publish(*range(5))
        await asyncio.sleep(0.4)
        it.publish(5)
        assert it.said() == []
        await outbox.emptied()
        assert it.said() == [0, 1, 2, 3, 4, 5]
        assert bus.most == 4


async def test_what_is_not_taken_comes_after_what_went_with_it_and_nothing_comes_twice() -> None:
    bus = Crowded(CLUSTER)
    bus.late = b"2"
    async with an_outbox(bus) as it:
        it.publish(1, 2, 3)
        await it.outbox.emptied()
        assert it.said() == [1, 3, 2]
        assert it.dropped == []
