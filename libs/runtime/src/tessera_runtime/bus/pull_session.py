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
    lasting: bool = False
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

    def news(self) -> Message:
        """The message as subscribers see it. Raises BadEnvelope."""
        return Message(
            subject=self.home.stream.told_on(self.delivery.subject),
            envelope=read_envelope(self.delivery.headers),
            data=self.delivery.data,
        )


class _Pulling:
    """One consumer: how much is still to come, and when it was heard of."""

    def __init__(self, reading: ConsumerSpec, reply: str) -> None:
        self.reading = reading
        self.reply = reply
        self.left = 0
        self.heard = 0.0


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

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that are read."""
        return tuple(self._pulls)

    def end(self, why: str) -> None:
        """Let `get` raise BusAway when it comes to this point."""
        self.inbox.put(BusAway(why))

    async def begin(self, readings: Iterable[ConsumerSpec]) -> None:
        """Make the consumers. Raises BusAway, Refused."""
        for number, reading in enumerate(readings):
            stream = reading.home.stream.name
            await jetstream.create_consumer(self.link, stream, reading.consumer, reading.config)
            pulling = _Pulling(reading, f"{self.inbox.subject[:-1]}{number}")
            self._pulls[stream] = self._by_reply[pulling.reply] = pulling

    async def get(self) -> StreamMessage:
        """The next message. Raises BusAway when the session is over."""
        away = _now() - self._left_at
        for pulling in self._pulls.values():
            pulling.heard += away
        try:
            while True:
                kept = await self._one()
                if kept is not None:
                    return kept
        finally:
            self._left_at = _now()

    async def _one(self) -> StreamMessage | None:
        # Asking comes before taking: a caller that gives up in between loses no message.
        for pulling in self._pulls.values():
            if pulling.left <= 0:
                await self._ask(pulling)
        delivery = await self.inbox.get(self._patience())
        said = self._by_reply.get(delivery.subject)
        if said is not None:
            _heed(said, delivery)
            return None
        stream, sequence = _place(delivery.reply)
        if stream not in self._pulls:
            return None
        pulled = self._pulls[stream]
        pulled.heard = _now()
        pulled.left -= 1
        return StreamMessage(pulled.reading.home, sequence, delivery)

    def _patience(self) -> float:
        """Seconds that the consumer which was heard of longest ago may go on saying nothing."""
        if not self.inbox.empty:
            return self._settings.heartbeat_s
        heard = min(pulling.heard for pulling in self._pulls.values())
        return max(heard + _BEATS * self._settings.heartbeat_s - _now(), 0)

    async def _ask(self, pulling: _Pulling) -> None:
        settings = self._settings
        asked = PullRequest(settings.batch, settings.pull_s, settings.heartbeat_s)
        reading = pulling.reading
        await jetstream.pull(
            self.link, reading.home.stream.name, reading.consumer, pulling.reply, asked
        )
        pulling.left = settings.batch
        pulling.heard = _now()

    async def leave(self) -> None:
        """Let go of consumers that are nobody's now; others are given back what was not taken."""
        with suppress(BusAway):
            for stream, pulling in self._pulls.items():
                if self._settings.tidy and not pulling.reading.lasting:
                    await jetstream.delete_consumer(self.link, stream, pulling.reading.consumer)
            for delivery in self.inbox.drain():
                pulled = self._pulls.get(_place(delivery.reply)[0])
                if pulled is not None and pulled.reading.lasting:
                    await self.link.publish(delivery.reply, NOT_DONE)


@asynccontextmanager
async def open_session(
    link: NatsLink, settings: BusSettings, readings: Iterable[ConsumerSpec]
) -> AsyncGenerator[PullSession]:
    """Begin to read. Raises BusAway, Refused."""
    async with link.subscribe(f"{link.inbox_subject()}.*") as inbox:
        session = PullSession(link, inbox, settings)
        try:
            await session.begin(readings)
            yield session
        finally:
            await session.leave()


def _heed(pulling: _Pulling, delivery: Delivery) -> None:
    if delivery.status == _ALIVE:
        pulling.heard = _now()
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
