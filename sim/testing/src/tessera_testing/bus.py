"""A message bus in memory: the promises of `tessera_runtime.bus.api`, and the faults that NATS has,
on whatever clock the loop runs on.

It keeps everything that was ever published. A durable reader is one process here, and a `renewed`
or a reader that waits is woken at once, not after a time of trying again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tessera_runtime.bus.api import Message, MessageRejected, PublishError, Resync
from tessera_runtime.bus.streams import Stream, StreamLayout, check_key
from tessera_runtime.bus.subject_patterns import matches
from tessera_runtime.errors import BusAway
from tessera_schema.messages.envelope import Envelope


class _Log:
    """What was published, and what is to be woken."""

    def __init__(self, *, connected: bool) -> None:
        self.published: list[tuple[str, Message | None]] = []
        """Subject and message; None is one whose headers make no sense."""
        self.connected = connected
        self.lives: Counter[str] = Counter()
        """How often the watches of a bucket had to start again."""
        self.values: dict[str, dict[str, Message]] = {}
        self.done: dict[tuple[str, str], int] = {}
        """Durable reader and subject -> up to where it has read."""
        self.counted: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def append(self, subject: str, message: Message | None) -> None:
        self.published.append((subject, message))
        self.wake()

    def wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def change(self) -> None:
        await self._changed.wait()

    def first(self, place: int, pattern: str) -> tuple[int, Message | None]:
        """The place after the first message that matches, and the message if there is one."""
        while self.connected and place < len(self.published):
            subject, message = self.published[place]
            place += 1
            if not matches(pattern, subject):
                continue
            if message is not None:
                return place, message
            self.counted["bad_envelope"] += 1
        return place, None


class _Reader:
    """See `Bus.subscribe`."""

    def __init__(self, log: _Log, subject: str, durable: str) -> None:
        self._log = log
        self._subject = subject
        self._durable = durable
        self._place = log.done.get((durable, subject), 0) if durable else len(log.published)

    def __aiter__(self) -> _Reader:
        return self

    async def __anext__(self) -> Message:
        if self._durable:
            self._log.done[self._durable, self._subject] = self._place
        while True:
            self._place, message = self._log.first(self._place, self._subject)
            if message is not None:
                return message
            await self._log.change()


class _Watch:
    """See `Bus.watch`."""

    def __init__(self, log: _Log, stream: Stream, keys: str) -> None:
        self._log = log
        self._bucket = stream.bucket
        self._pattern = stream.published + keys
        self._life = -1
        self._place = 0
        self._values: list[Message] = []

    def __aiter__(self) -> _Watch:
        return self

    async def __anext__(self) -> Message | Resync:
        log = self._log
        while True:
            if log.connected and self._life != log.lives[self._bucket]:
                return self._resync()
            if self._values:
                return self._values.pop(0)
            self._place, message = log.first(self._place, self._pattern)
            if message is not None:
                return message
            await log.change()

    def _resync(self) -> Resync:
        why = "the first reading" if self._life < 0 else "the bucket or the connection was lost"
        self._life = self._log.lives[self._bucket]
        self._place = len(self._log.published)
        values = self._log.values[self._bucket].values()
        self._values = [message for message in values if matches(self._pattern, message.subject)]
        return Resync(why)


class FakeBus:
    """A Bus. From `away` on, each method does what can happen to a NATS server."""

    def __init__(
        self, cluster: str = "default", *, connected: bool = True, largest: int = 1 << 20
    ) -> None:
        """`largest` is the most bytes that a message's data may have."""
        self._layout = StreamLayout(cluster)
        self._largest = largest
        self._log = _Log(connected=connected)
        self._log.values = {bucket: {} for bucket in self._layout.buckets}
        self._ids: set[tuple[str, str]] = set()
        self._renewals = int(connected)
        self._unanswered = 0

    @property
    def connected(self) -> bool:
        """See `Bus.connected`."""
        return self._log.connected

    async def connection_generation(self, seen: int) -> int:
        """See `Bus.connection_generation`."""
        while not self._log.connected or self._renewals == seen:
            await self._log.change()
        return self._renewals

    async def publish(self, subject: str, envelope: Envelope, data: bytes) -> None:
        """See `Bus.publish`."""
        stream = self._layout.stream_of(subject)
        await self._take(stream, Message(subject=subject, envelope=envelope, data=data))

    async def publish_all(self, several: Sequence[Message]) -> Sequence[PublishError | None]:
        """See `Bus.publish_all`."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._answer(message), name="news") for message in several]
        return [task.result() for task in tasks]

    async def _answer(self, message: Message) -> PublishError | None:
        try:
            await self.publish(message.subject, message.envelope, message.data)
        except (BusAway, MessageRejected) as e:
            return e
        return None

    async def put(self, bucket: str, key: str, envelope: Envelope, data: bytes) -> None:
        """See `Bus.put`."""
        stream = self._layout.bucket(bucket)
        check_key(key)
        await self._take(
            stream, Message(subject=stream.published + key, envelope=envelope, data=data)
        )

    @asynccontextmanager
    async def subscribe(
        self, subject: str, *, durable: str = ""
    ) -> AsyncGenerator[AsyncIterator[Message]]:
        """See `Bus.subscribe`."""
        self._layout.homes(subject)
        yield _Reader(self._log, subject, durable)

    @asynccontextmanager
    async def watch(
        self, bucket: str, keys: str = ">"
    ) -> AsyncGenerator[AsyncIterator[Message | Resync]]:
        """See `Bus.watch`."""
        yield _Watch(self._log, self._layout.bucket(bucket), keys)

    def said(self, subject: str = ">") -> list[Message]:
        """All messages that match, values of buckets and repeats included, in order."""
        return [message for on, message in self._log.published if message and matches(subject, on)]

    def values(self, bucket: str, keys: str = ">") -> dict[str, Message]:
        """The last values of a bucket by key, the longest unchanged first."""
        values = self._log.values[bucket]
        return {key: message for key, message in values.items() if matches(keys, key)}

    def counted(self, what: str) -> int:
        """How often something happened that `open_bus` counts; here that is bad_envelope."""
        return self._log.counted[what]

    def away(self) -> None:
        """NATS stops answering."""
        self._log.connected = False
        self._log.wake()

    def back(self) -> None:
        """NATS answers again, with all that it had."""
        self._log.connected = True
        self._log.lives.update(list(self._layout.buckets))
        self._renew()

    def remake(self, bucket: str) -> None:
        """The bucket is deleted and made again."""
        name = self._layout.bucket(bucket).name
        self._log.values[bucket].clear()
        self._ids = {id_ for id_ in self._ids if id_[0] != name}
        self._log.lives[bucket] += 1
        self._renew()

    def lose_answers(self, count: int) -> None:
        """The next messages are taken, but their sender learns that the bus is away."""
        self._unanswered = count

    def repeat(self, subject: str) -> None:
        """Deliver all messages that match once more."""
        for message in self.said(subject):
            self._log.append(message.subject, message)

    def garble(self, subject: str) -> None:
        """A message comes whose headers make no sense, such as another program's."""
        self._log.append(subject, None)

    async def _take(self, stream: Stream, message: Message) -> None:
        if len(message.data) > self._largest:
            raise MessageRejected(
                f"message on {message.subject}: {len(message.data)} bytes: "
                f"this bus takes {self._largest}"
            )
        await asyncio.sleep(0)
        if not self._log.connected:
            raise BusAway("the bus is away")
        id_ = stream.name, message.envelope.id
        if id_ not in self._ids:
            self._ids.add(id_)
            self._keep(stream, message)
        if self._unanswered:
            self._unanswered -= 1
            raise BusAway("the answer was lost")

    def _keep(self, stream: Stream, message: Message) -> None:
        if stream.bucket:
            values = self._log.values[stream.bucket]
            key = message.subject.removeprefix(stream.published)
            values.pop(key, None)
            values[key] = message
        self._log.append(message.subject, message)

    def _renew(self) -> None:
        self._renewals += 1
        self._log.wake()
