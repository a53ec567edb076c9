"""What the services need of the message bus. `bus.client` speaks NATS, `tessera_testing` offers the
same in memory.

Delivery is at least once: readers recognise repeats by source, epoch and sequence, and what matters
is in the API server anyway. While NATS is away `publish` and `put` raise BusAway at once or within
their deadline; `subscribe` and `watch` wait, and go on by themselves when it is back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from tessera_runtime.errors import BusAway, Permanent
from tessera_schema.messages.envelope import Envelope


class MessageRejected(Permanent):
    """The message was not sent and never can be: it is too large, or nothing keeps its subject."""


class Message(Struct, frozen=True, kw_only=True):
    """One message. `subject` is the one that subscribers see, for values of buckets too."""

    subject: str
    envelope: Envelope
    data: bytes


PublishError = BusAway | MessageRejected
"""Why the bus has not taken a message."""


class Resync(Struct, frozen=True):
    """What was read before may be out of date: last values follow again from the beginning."""

    why: str


class Bus(Protocol):
    """What services publish to and read from; NATS, or its double in memory."""

    @property
    def connected(self) -> bool:
        """True while NATS answers."""
        ...

    async def connection_generation(self, seen: int) -> int:
        """Wait until NATS answers and its renewals are other than `seen`; their number.

        They grow when what was put before may have been lost: on a new connection, when a bucket
        was made again or emptied. 0 has never been seen.
        """
        ...

    async def publish(self, subject: str, envelope: Envelope, data: bytes) -> None:
        """Put a message into the stream that its subject belongs to, once per envelope id.

        Raises BusAway, MessageRejected.
        """
        ...

    async def publish_all(self, several: Sequence[Message]) -> Sequence[PublishError | None]:
        """Publish messages that go at once, in their order, within one deadline; for each of them
        why it was not taken, None where it was. Raises nothing of it."""
        ...

    async def put(self, bucket: str, key: str, envelope: Envelope, data: bytes) -> None:
        """Replace the last value of a key; it is republished on its subject.

        Raises BusAway, MessageRejected.
        """
        ...

    def subscribe(
        self, subject: str, *, durable: str = ""
    ) -> AbstractAsyncContextManager[AsyncIterator[Message]]:
        """Messages from now on whose subject matches (`*` and `>` as in NATS).

        With `durable`, those that came while the reader was away come first (the first time all
        that there are), as far as the stream keeps them, and each is acknowledged when the next
        one is read; what was in hand when a reader broke off comes again, after newer ones.
        Messages whose envelope cannot be read are dropped and counted.
        """
        ...

    def watch(
        self, bucket: str, keys: str = ">"
    ) -> AbstractAsyncContextManager[AsyncIterator[Message | Resync]]:
        """The last values of a bucket's keys, then each change, without end.

        A Resync comes first, and again whenever the watch had to start again: after a reconnect,
        when the bucket was made again or emptied, when its sequence went back.
        """
        ...
