"""Reading streams by pulling, with a watchdog: a pull that gives no sign of life ends the session,
and its owner begins a new one.

Time that the owner spends with a message does not count as silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from msgspec import Struct

from tessera_runtime.bus import jetstream
from tessera_runtime.bus.api import Message
from tessera_runtime.bus.jetstream import PullRequest
from tessera_runtime.bus.nats_link import NatsLink
from tessera_runtime.bus.request_queue import Delivery, Inbox
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.bus.streams import StreamSubject
from tessera_runtime.errors import BusAway
from tessera_runtime.slice_runner import LoopTurn
from tessera_schema.messages.envelope import read_envelope

DONE: Final = b"+ACK"
NOT_DONE: Final = b"-NAK"
_ACK: Final = "$JS.ACK."
_ALIVE: Final = 100
_EXPIRED: Final = 408
_COMPLETED: Final = "Batch Completed"
_BEATS: Final = 2.5


class ConsumerSpec(Struct, frozen=True):
    """What is read: a part of a stream, through one consumer."""

    home: StreamSubject
    consumer: str
    config: Mapping[str, Any]
    durable: bool = False
    """The consumer stays when the session ends."""


class StreamMessage(Struct, frozen=True):
    """A message of a stream."""

    home: StreamSubject
    sequence: int
    delivery: Delivery

    @property
    def is_marker(self) -> bool:
        """True for the mark that a deleted key leaves."""
        headers = self.delivery.headers
        return "KV-Operation" in headers or "Nats-Marker-Reason" in headers

    def message(self) -> Message:
        """The message as subscribers see it. Raises BadEnvelope."""
        return Message(
            subject=self.home.stream.published_subject(self.delivery.subject),
            envelope=read_envelope(self.delivery.headers),
            data=self.delivery.data,
        )


class _Pulling:
    """One consumer: how much is still to come, and when it last gave a sign of life."""

    def __init__(self, reading: ConsumerSpec, reply: str) -> None:
        self.reading = reading
        self.reply = reply
        self.left = 0
        self.alive_at = 0.0


class PullSession:
    """Messages of some streams over one link; over when anything is doubtful."""

    def __init__(self, link: NatsLink, inbox: Inbox, settings: BusSettings) -> None:
        """Use `open_session`."""
        self.link = link
        self.inbox = inbox
        self._settings = settings
        self._pulls: dict[str, _Pulling] = {}
        self._by_reply: dict[str, _Pulling] = {}
        self._left_at = _now()
        self._turn = LoopTurn()

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that are read."""
        return tuple(self._pulls)

    def end(self, why: str) -> None:
        """Let `get` raise BusAway when it comes to this point."""
        self.inbox.put(BusAway(why))

    async def begin(self, readings: Iterable[ConsumerSpec]) -> None:
        """Make the consumers. Raises BusAway, JetStreamRefused."""
        for number, reading in enumerate(readings):
            stream = reading.home.stream.name
            await jetstream.create_consumer(self.link, stream, reading.consumer, reading.config)
            pulling = _Pulling(reading, f"{self.inbox.subject[:-1]}{number}")
            self._pulls[stream] = self._by_reply[pulling.reply] = pulling

    async def get(self) -> StreamMessage:
        """The next message. Raises BusAway when the session is over."""
        away = _now() - self._left_at
        for pulling in self._pulls.values():
            pulling.alive_at += away
        try:
            while True:
                message = await self._one()
                if message is not None:
                    return message
        finally:
            self._left_at = _now()

    async def _one(self) -> StreamMessage | None:
        # Pulling comes before taking: a caller that gives up in between loses no message.
        for pulling in self._pulls.values():
            if pulling.left <= 0:
                await self._pull(pulling)
        waits = self.inbox.empty
        if not waits:  # nor does anything else: a batch of them would keep the loop
            await self._turn.pause()
        delivery = await self.inbox.get(self._timeout_s())
        if waits:
            self._turn.begin()
        said = self._by_reply.get(delivery.subject)
        if said is not None:
            _on_status(said, delivery)
            return None
        stream, sequence = _place(delivery.reply)
        if stream not in self._pulls:
            return None
        pulled = self._pulls[stream]
        pulled.alive_at = _now()
        pulled.left -= 1
        return StreamMessage(pulled.reading.home, sequence, delivery)

    def _timeout_s(self) -> float:
        """Seconds that the consumer which has been silent longest may stay so."""
        if not self.inbox.empty:
            return self._settings.heartbeat_s
        alive_at = min(pulling.alive_at for pulling in self._pulls.values())
        return max(alive_at + _BEATS * self._settings.heartbeat_s - _now(), 0)

    async def _pull(self, pulling: _Pulling) -> None:
        settings = self._settings
        request = PullRequest(settings.batch, settings.pull_s, settings.heartbeat_s)
        reading = pulling.reading
        await jetstream.pull(
            self.link, reading.home.stream.name, reading.consumer, pulling.reply, request
        )
        pulling.left = settings.batch
        pulling.alive_at = _now()

    async def leave(self) -> None:
        """Delete consumers that end with the session; give back to others what was not taken."""
        with suppress(BusAway):
            for stream, pulling in self._pulls.items():
                if self._settings.tidy and not pulling.reading.durable:
                    await jetstream.delete_consumer(self.link, stream, pulling.reading.consumer)
            for delivery in self.inbox.drain():
                pulled = self._pulls.get(_place(delivery.reply)[0])
                if pulled is not None and pulled.reading.durable:
                    await self.link.publish(delivery.reply, NOT_DONE)


@asynccontextmanager
async def open_session(
    link: NatsLink, settings: BusSettings, readings: Iterable[ConsumerSpec]
) -> AsyncGenerator[PullSession]:
    """Begin to read. Raises BusAway, JetStreamRefused."""
    async with link.subscribe(f"{link.inbox_subject()}.*") as inbox:
        session = PullSession(link, inbox, settings)
        try:
            await session.begin(readings)
            yield session
        finally:
            await session.leave()


def _on_status(pulling: _Pulling, delivery: Delivery) -> None:
    if delivery.status == _ALIVE:
        pulling.alive_at = _now()
        return
    why = delivery.headers.get("Description", "")
    if delivery.status == _EXPIRED or why == _COMPLETED:
        pulling.left = 0
    else:
        stream = pulling.reading.home.stream.name
        raise BusAway(f"reading {stream} ended: {delivery.status} {why}".rstrip())


def _place(reply: str) -> tuple[str, int]:
    # $JS.ACK.<stream>.<consumer>.<times>.<sequence>...; two tokens more before where a cluster of
    # NATS has domains.
    tokens = reply.removeprefix(_ACK).split(".")
    first = 0 if len(tokens) == 7 else 2
    if not reply.startswith(_ACK) or len(tokens) < 7 or not tokens[first + 3].isdecimal():
        return "", 0
    return tokens[first], int(tokens[first + 3])


def _now() -> float:
    return asyncio.get_running_loop().time()
