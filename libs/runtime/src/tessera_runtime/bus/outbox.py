"""Publishes without waiting for NATS: a service says what happened and goes on.

Events wait in order, up to a bound; then the oldest are dropped and counted. They go in bursts, and
one that the bus does not take is tried again together with all behind it: those that it had taken
are repeats by their ids. State is another matter: of each key only the newest value waits, the last
one is remembered, and it is published again when the bus may have lost it. It is remembered as the
value that it is made from, and made when it goes: what 10,000 nodes publish is several times as
large. What the bus has not taken when the outbox closes is lost.

One source has one outbox: its sequence is what consumers recognise repeats by.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, TypeVar

from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.background import running_in_background
from tessera_runtime.backoff import Backoff
from tessera_runtime.bus.api import Bus, Message, MessageRejected, PublishError
from tessera_runtime.clock import Clock
from tessera_runtime.errors import BusAway
from tessera_schema.messages.envelope import Envelope

log = logs.named("tessera.bus")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
T = TypeVar("T")
Place = tuple[str, str]
"""Bucket and key."""
Sign = Callable[[tuple[int, int], bytes], str]
"""The signature of a message: of its epoch and sequence, and its data."""


class _Queued(Struct, frozen=True, kw_only=True):
    """What is to be published, and its time. The envelope is made when it goes: a burst costs
    less."""

    type: str
    sequence: int
    time: float
    traceparent: str
    signature: str


class _Event(_Queued, frozen=True, kw_only=True):
    subject: str
    data: bytes


class _State(_Queued, frozen=True, kw_only=True):
    place: Place
    value: Any
    encode: Callable[[Any], bytes]
    """Makes the data of the value, each time the same."""


class OutboxSettings(Struct, frozen=True, kw_only=True):
    """What waits for NATS, and for how long."""

    capacity: int = 10_000
    """Events that wait at most: some minutes of a busy scheduler, about 10 MB."""
    retry_first_s: float = 0.2
    """Seconds until a message that NATS did not take is tried again; doubled from then on."""
    retry_most_s: float = 5.0
    """Most seconds between attempts while NATS answers but does not take messages."""
    gather_s: float = 0.0
    """Seconds that a message may wait for others to go with it: one burst costs this process and
    NATS far less than as many messages one by one."""
    burst: int = 64
    """Events that go at once, before the bus has taken the first of them."""
    closing_s: float = 1.0
    """Seconds at the end for what still waits, if NATS answers."""


class Outbox:
    """What a service publishes. Nothing here blocks or raises."""

    def __init__(
        self, clock: Clock, service: str, instance: str, settings: OutboxSettings,
        on_drop: Callable[[str, str], None], sign: Sign | None = None,
    ) -> None:  # fmt: skip
        """Use `open_outbox`."""
        self._sign = sign
        self._clock = clock
        self._source = f"/tessera/{service}/{instance}"
        self._epoch = int(clock.time() * 1000)
        self._life = secrets.token_hex(6)
        self._sequence = 0
        self._settings = settings
        self._on_drop = on_drop
        self._events: deque[_Event] = deque()
        self._states: dict[Place, _State] = {}
        self._unsent: dict[Place, None] = {}
        self._something = asyncio.Event()
        self._dropped = 0
        self._taken = asyncio.Event()
        self._taken.set()

    @property
    def waiting(self) -> int:
        """Messages that the bus has not taken yet."""
        return len(self._events) + len(self._unsent)

    def publish(self, subject: str, type_: str, data: bytes, traceparent: str = "") -> None:
        """Queue an event. The oldest is dropped when too many wait.

        A traceparent that is none (it may come from a tenant's pod) counts as empty.
        """
        capacity = self._settings.capacity
        while len(self._events) >= capacity:
            self._drop(self._events.popleft(), f"more than {capacity} messages wait")
        sequence, signature = self._next_in_order(lambda: data)
        self._events.append(
            _Event(
                subject=subject, type=type_, data=data, sequence=sequence,
                time=self._clock.time(), traceparent=_checked(traceparent), signature=signature,
            )
        )  # fmt: skip
        self._wake()

    def publish_state(
        self, bucket: str, key: str, type_: str, data: bytes, traceparent: str = ""
    ) -> None:
        """Queue the state of a key; one that waited for the bus is forgotten."""
        self.publish_encoded_state(bucket, key, type_, data, bytes, traceparent)

    def publish_encoded_state(
        self, bucket: str, key: str, type_: str, value: T, encode: Callable[[T], bytes],
        traceparent: str = "",
    ) -> None:  # fmt: skip
        """The same of a value that does not change, and whose data `encode` makes whenever it
        goes."""
        self._queue_state((bucket, key), type_, value, encode, _checked(traceparent))
        self._wake()

    def forget_state(self, bucket: str, key: str) -> None:
        """Do not publish this key again; the bucket keeps what it has."""
        self._states.pop((bucket, key), None)
        self._unsent.pop((bucket, key), None)

    async def emptied(self) -> None:
        """Wait until the bus has taken everything."""
        await self._taken.wait()

    async def send_to(self, bus: Bus, pace: Backoff) -> None:
        """Hand over what waits, for ever."""
        states_first = False
        while True:
            queued = self._next(states_first=states_first)
            if queued is None:
                self._something.clear()
                self._taken.set()
                await self._something.wait()
                await asyncio.sleep(self._settings.gather_s)
                continue
            if await self._handed_over(bus, queued):
                states_first = False
                pace.reset()
                if 0 < self.waiting < self._settings.burst:
                    await asyncio.sleep(self._settings.gather_s)
                continue
            # What is not taken must not keep everything else back for ever.
            states_first = not states_first
            if isinstance(queued, _State):
                self._put_last(queued.place)
            await bus.connection_generation(0)
            await pace.wait()

    async def republish_states(self, bus: Bus) -> None:
        """Publish all states again whenever the bus may have lost them, for ever."""
        generation = 0
        while True:
            generation = await bus.connection_generation(generation)
            for place, item in self._states.items():
                if place not in self._unsent:
                    # With the old id it could be taken for a repeat of what was lost.
                    self._queue_state(place, item.type, item.value, item.encode, item.traceparent)
            self._wake()

    async def _handed_over(self, bus: Bus, queued: Sequence[_Event] | _State) -> bool:
        """Send them at once; False when one was not taken. Those before it are done."""
        if isinstance(queued, _State):
            return self._settle(queued, await self._put(bus, queued))
        messages = [
            Message(subject=each.subject, envelope=self._envelope(each), data=each.data)
            for each in queued
        ]
        return all(map(self._settle, queued, await bus.publish_all(messages)))

    async def _put(self, bus: Bus, state: _State) -> PublishError | None:
        try:
            await bus.put(*state.place, self._envelope(state), state.encode(state.value))
        except (BusAway, MessageRejected) as e:
            return e
        return None

    def _settle(self, item: _Event | _State, problem: PublishError | None) -> bool:
        """Be done with a message, unless the bus may take it yet; False = it may."""
        match problem:
            case BusAway():
                return False
            case MessageRejected():
                self._drop(item, str(problem))
            case None:
                self._note_success()
        self._done(item)
        return True

    def _next(self, *, states_first: bool) -> Sequence[_Event] | _State | None:
        place = next(iter(self._unsent), None)
        if self._events and not (states_first and place is not None):
            return list(islice(self._events, self._settings.burst))
        return None if place is None else self._states[place]

    def _put_last(self, place: Place) -> None:
        if place in self._unsent:
            del self._unsent[place]
            self._unsent[place] = None

    def _done(self, item: _Event | _State) -> None:
        # Meanwhile it may have been dropped, or a newer state may have come.
        if isinstance(item, _State):
            if self._states.get(item.place) is item:
                self._unsent.pop(item.place, None)
        elif self._events and self._events[0] is item:
            self._events.popleft()

    def _drop(self, item: _Event | _State, why: str) -> None:
        # One line for a whole outage; the count is for metrics.
        if not self._dropped:
            log.warning("messages dropped", first=_place_name(item), why=why)
        self._dropped += 1
        self._on_drop(_place_name(item), why)

    def _note_success(self) -> None:
        if self._dropped:
            log.warning("messages were dropped", count=self._dropped)
            self._dropped = 0

    def _wake(self) -> None:
        if self.waiting:
            self._taken.clear()
            self._something.set()

    def _queue_state(
        self, place: Place, type_: str, value: T, encode: Callable[[T], bytes], traceparent: str
    ) -> None:
        sequence, signature = self._next_in_order(lambda: encode(value))
        self._states[place] = _State(
            place=place, type=type_, value=value, encode=encode, sequence=sequence,
            time=self._clock.time(), traceparent=traceparent, signature=signature,
        )  # fmt: skip
        self._unsent[place] = None

    def _next_in_order(self, data: Callable[[], bytes]) -> tuple[int, str]:
        """The next message's sequence, and its signature."""
        self._sequence += 1
        sign = self._sign
        return self._sequence, "" if sign is None else sign((self._epoch, self._sequence), data())

    def _envelope(self, item: _Queued) -> Envelope:
        """The same one each time: a repeat is recognised by its id."""
        at = datetime.fromtimestamp(item.time, UTC)
        return Envelope(
            id=f"{self._life}-{item.sequence}", source=self._source, type=item.type,
            time=at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            epoch=self._epoch, sequence=item.sequence, traceparent=item.traceparent,
            signature=item.signature,
        )  # fmt: skip


def _checked(traceparent: str) -> str:
    return traceparent if traceparent and _TRACEPARENT.fullmatch(traceparent) else ""


def _place_name(item: _Event | _State) -> str:
    return item.subject if isinstance(item, _Event) else "/".join(item.place)


def _ignore(what: str, why: str) -> None:
    del what, why


@asynccontextmanager
async def open_outbox(
    bus: Bus,
    clock: Clock,
    service: str,
    instance: str,
    *,
    settings: OutboxSettings | None = None,
    on_drop: Callable[[str, str], None] = _ignore,
    sign: Sign | None = None,
) -> AsyncGenerator[Outbox]:
    """Publish over the bus until left. `on_drop` gets the subject, or bucket and key, and the
    reason."""
    settings = settings or OutboxSettings()
    outbox = Outbox(clock, service, instance, settings, on_drop, sign)
    pace = Backoff(settings.retry_first_s, settings.retry_most_s, f"{service}/{instance}")
    async with (
        running_in_background(outbox.send_to(bus, pace), "outbox"),
        running_in_background(outbox.republish_states(bus), "outbox republishing"),
    ):
        try:
            yield outbox
        finally:  # a service is cancelled to end it
            if bus.connected:
                with suppress(TimeoutError):
                    async with asyncio.timeout(settings.closing_s):
                        await outbox.emptied()
