"""The message bus on NATS. Opening it never waits for NATS, and nothing of it ends when NATS does.

It does not promise that a message that was put is read by anyone, nor that it survives NATS's
loss of its disk; `connection_generation` grows when to put things again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from tessera_runtime.background import running_in_background
from tessera_runtime.bus import jetstream
from tessera_runtime.bus.api import Message, MessageRejected, PublishError, Resync
from tessera_runtime.bus.consumer import StreamConsumer
from tessera_runtime.bus.kv_watch import KeyValueWatch
from tessera_runtime.bus.nats_link import NatsLink, RequestMessage
from tessera_runtime.bus.reconnect import ReconnectingClient
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.bus.streams import check_key
from tessera_runtime.bus.subscription import Subscription
from tessera_runtime.errors import BusAway
from tessera_schema.messages.envelope import Envelope


def _ignore(what: str) -> None:
    del what


class NatsBus:
    """A Bus. Besides, requests to services: see `bus.micro`."""

    def __init__(self, connection: ReconnectingClient) -> None:
        """Use `open_bus`."""
        self._connection = connection

    @property
    def settings(self) -> BusSettings:
        """What it was opened with."""
        return self._connection.settings

    @property
    def connected(self) -> bool:
        """True while NATS answers."""
        return self._connection.up

    async def connection_generation(self, seen: int) -> int:
        """See `Bus.connection_generation`."""
        return await self._connection.renewed(seen)

    async def linked(self) -> NatsLink:
        """The link of now, waiting until there is one."""
        return await self._connection.linked()

    async def publish(self, subject: str, envelope: Envelope, data: bytes) -> None:
        """See `Bus.publish`."""
        await self._store_one(self._message(subject, envelope, data))

    async def publish_all(self, several: Sequence[Message]) -> Sequence[PublishError | None]:
        """See `Bus.publish_all`."""
        made = [self._made(message) for message in several]
        answers = iter(await self._store([m for m in made if isinstance(m, RequestMessage)]))
        return [next(answers) if isinstance(m, RequestMessage) else m for m in made]

    async def put(self, bucket: str, key: str, envelope: Envelope, data: bytes) -> None:
        """See `Bus.put`."""
        stream = self._connection.layout.bucket(bucket)
        check_key(key)
        self._connection.use(stream.name)
        await self._store_one(self._sized(f"$KV.{bucket}.{key}", envelope, data))

    @asynccontextmanager
    async def subscribe(
        self, subject: str, *, durable: str = ""
    ) -> AsyncGenerator[AsyncIterator[Message]]:
        """See `Bus.subscribe`. Raises MessageRejected."""
        reader = Subscription(self._connection, subject, durable)
        async with _reading(reader), self._connection.before_others(reader.take_place):
            with suppress(BusAway):
                await reader.take_place(self._connection.link())
            yield reader

    @asynccontextmanager
    async def watch(
        self, bucket: str, keys: str = ">"
    ) -> AsyncGenerator[AsyncIterator[Message | Resync]]:
        """See `Bus.watch`. Raises MessageRejected."""
        reader = KeyValueWatch(self._connection, bucket, keys)
        async with _reading(reader):
            yield reader

    def _made(self, message: Message) -> RequestMessage | PublishError:
        try:
            return self._message(message.subject, message.envelope, message.data)
        except (BusAway, MessageRejected) as e:
            return e

    def _message(self, subject: str, envelope: Envelope, data: bytes) -> RequestMessage:
        self._connection.layout.stream_of(subject)
        return self._sized(subject, envelope, data)

    def _sized(self, subject: str, envelope: Envelope, data: bytes) -> RequestMessage:
        largest = self._connection.link().largest
        headers = envelope.headers()
        size = len(data) + _size(headers, subject)
        if size > largest:
            raise MessageRejected(
                f"message on {subject}: {size} bytes with its headers: NATS takes {largest} "
                "(max_payload in its configuration)"
            )
        return RequestMessage(subject, data, headers)

    async def _store_one(self, message: RequestMessage) -> None:
        (problem,) = await self._store([message])
        if problem is not None:
            raise problem

    async def _store(self, messages: Sequence[RequestMessage]) -> Sequence[PublishError | None]:
        if not messages:
            return ()
        try:
            problems: list[PublishError | None] = await jetstream.store_all(
                self._connection.link(), messages
            )
        except BusAway as e:
            problems = [e] * len(messages)
        if any(isinstance(problem, BusAway) for problem in problems):
            self._connection.doubt()
        return problems


@asynccontextmanager
async def open_bus(
    settings: BusSettings, service: str, instance: str, count: Callable[[str], None] = _ignore
) -> AsyncGenerator[NatsBus]:
    """Connect in the background, and stay connected. Raises BadSettings.

    `count` is called with what happens, for metrics: `connected`, `away`, `layout_mended`,
    `layout_refused`, `bucket_lost_values`, `read_anew`, `bad_envelope`."""
    settings.check()
    connection = ReconnectingClient(settings, f"tessera-{service}-{instance}", count)
    async with running_in_background(connection.run(), "bus"):
        yield NatsBus(connection)


@asynccontextmanager
async def _reading(reader: StreamConsumer) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await reader.close()


def _size(headers: Mapping[str, str], subject: str) -> int:
    try:
        return 12 + len("".join((*headers, *headers.values())).encode()) + 4 * len(headers)
    except UnicodeEncodeError as e:
        raise MessageRejected(f"message on {subject}: a header is no valid text: {e.reason}") from e
