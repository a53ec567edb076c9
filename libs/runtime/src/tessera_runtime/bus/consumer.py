"""What watching a bucket and reading a stream have in common: a session, and a new one after it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from tessera_runtime import logs
from tessera_runtime.backoff import Backoff
from tessera_runtime.bus.api import Message
from tessera_runtime.bus.jetstream import JetStreamRefused
from tessera_runtime.bus.nats_link import NatsLink
from tessera_runtime.bus.pull_session import ConsumerSpec, PullSession, StreamMessage, open_session
from tessera_runtime.bus.reconnect import ReconnectingClient
from tessera_runtime.errors import BusAway
from tessera_schema.messages.envelope import BadEnvelope

log = logs.named("tessera.bus")
SECOND_NS: Final = 1_000_000_000


class StreamConsumer:
    """Sessions one after the other. Giving up waiting for a message (a timeout around it) loses
    nothing: the next asking goes on."""

    def __init__(self, connection: ReconnectingClient, about: str) -> None:
        """`about` is what is read, for messages."""
        self.connection = connection
        self.about = about
        self.why = "the first reading"
        settings = connection.settings
        self._pace = Backoff(settings.retry_first_s, settings.retry_most_s, connection.name + about)
        self._stack = AsyncExitStack()
        self._session: PullSession | None = None
        self._dropped = ""

    async def readings(self, link: NatsLink) -> Sequence[ConsumerSpec]:
        """What the next session reads. Raises BusAway, Refused."""
        raise NotImplementedError

    async def begin(self) -> bool:
        """Make sure of a session; True when it is a new one. Waits for NATS as long as it takes."""
        if self._session is not None:
            return False
        while True:
            link = await self.connection.linked()
            try:
                await self.begin_on(link)
            except (BusAway, JetStreamRefused) as e:
                self._doubt(str(e))
            else:
                return True
            await self._pace.wait()

    async def begin_on(self, link: NatsLink) -> None:
        """Begin a session. Raises BusAway, Refused."""
        readings = await self.readings(link)
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(
                open_session(link, self.connection.settings, readings)
            )
            await stack.enter_async_context(self.connection.holding(session))
            self._stack = stack.pop_all()
            self._session = session

    async def next(self) -> StreamMessage | None:
        """The session's next message; None when the session is over."""
        if self._session is None:
            return None
        try:
            kept = await self._session.get()
        except BusAway as e:
            await self.end(str(e))
            return None
        self._pace.reset()
        return kept

    async def end(self, why: str) -> None:
        """The session is not to be trusted any more."""
        self._doubt(why)
        self.connection.count("read_anew")
        await self.close()
        await self._pace.wait()

    async def close(self) -> None:
        """Let go of the session."""
        self._session = None
        await self._stack.aclose()

    def readable(self, kept: StreamMessage) -> Message | None:
        """The message, or None for one that is dropped and counted."""
        if kept.is_marker:
            return None
        try:
            return kept.message()
        except BadEnvelope as e:
            self.connection.count("bad_envelope")
            if str(e) != self._dropped:
                log.warning("message dropped", subject=kept.delivery.subject, why=str(e))
            self._dropped = str(e)
            return None

    def _doubt(self, why: str) -> None:
        if why != self.why:
            log.info("reading again", what=self.about, why=why)
        self.why = why
        self.connection.doubt()
