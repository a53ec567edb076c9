"""Reading a stream: from now on, or with a name under which NATS remembers how far it was read.

Over a lost connection a reader goes on after the last message that it handed over. A stream that
was made again is read from its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from tessera_runtime.bus.api import Message, MessageRejected
from tessera_runtime.bus.consumer import SECOND_NS, StreamConsumer
from tessera_runtime.bus.jetstream import JetStreamRefused, stream_info
from tessera_runtime.bus.nats_link import NatsLink
from tessera_runtime.bus.pull_session import DONE, NOT_DONE, ConsumerSpec, StreamMessage
from tessera_runtime.bus.reconnect import ReconnectingClient
from tessera_runtime.bus.streams import StreamSubject
from tessera_runtime.errors import BusAway

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Subscription(StreamConsumer):
    """An endless iterator over messages."""

    def __init__(self, connection: ReconnectingClient, subject: str, durable: str) -> None:
        """Raises MessageRejected for a subject that nothing keeps, or an impossible name."""
        super().__init__(connection, f"{subject} {durable}".rstrip())
        self._homes = connection.layout.homes(subject)
        if durable and not _NAME.fullmatch(durable):
            raise MessageRejected(
                f"durable {durable!r}: write up to 64 letters, digits, `-` and `_`"
            )
        self._durable = durable
        self._places: dict[str, tuple[str, int]] = {}
        """Stream -> when it was made, and the sequence to go on from."""
        self._unfinished: StreamMessage | None = None

    def __aiter__(self) -> Subscription:
        """It is its own iterator."""
        return self

    async def __anext__(self) -> Message:
        """The next message; the one before is acknowledged."""
        await self._finish()
        while True:
            await self.begin()
            stored = await self.next()
            if stored is None:
                continue
            stream = stored.home.stream.name
            if not self._durable:
                self._places[stream] = self._places[stream][0], stored.sequence + 1
            message = self.readable(stored)
            self._unfinished = stored
            if message is not None:
                return message
            await self._finish()

    async def readings(self, link: NatsLink) -> Sequence[ConsumerSpec]:
        """One reading for each stream."""
        if self._durable:
            return [self._durable_reading(home) for home in self._homes]
        return [await self._fleeting_reading(link, home) for home in self._homes]

    def _durable_reading(self, home: StreamSubject) -> ConsumerSpec:
        settings = self.connection.settings
        config = {
            "durable_name": self._durable,
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": int(settings.ack_s * SECOND_NS),
            "max_ack_pending": 4 * settings.batch,
            "filter_subject": home.filter,
            "inactive_threshold": int(settings.durable_idle_s * SECOND_NS),
        }
        return ConsumerSpec(home, self._durable, config, durable=True)

    async def _fleeting_reading(self, link: NatsLink, home: StreamSubject) -> ConsumerSpec:
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": await self._place(link, home.stream.name),
            "ack_policy": "none",
            "filter_subject": home.filter,
            "inactive_threshold": int(self.connection.settings.idle_s * SECOND_NS),
            "mem_storage": True,
            "num_replicas": 1,
        }
        return ConsumerSpec(home, link.fresh_name(), config)

    async def take_place(self, link: NatsLink) -> None:
        """Fix where "from now on" begins, once, without beginning to read. Raises BusAway."""
        if self._durable:
            return
        for home in self._homes:
            if home.stream.name not in self._places:
                with suppress(JetStreamRefused):
                    await self._place(link, home.stream.name)

    async def _place(self, link: NatsLink, stream: str) -> int:
        info = await stream_info(link, stream)
        if info is None:
            self._places.setdefault(stream, ("", 1))
            raise BusAway(f"{stream}: not made yet")
        made, sequence = self._places.get(stream, (info.created, info.state.last_seq + 1))
        if made != info.created or sequence > info.state.last_seq + 1:
            sequence = 1
        self._places[stream] = info.created, sequence
        return sequence

    async def close(self) -> None:
        """Let go of the session; what is in hand comes again."""
        await self._finish(NOT_DONE)
        await super().close()

    async def _finish(self, how: bytes = DONE) -> None:
        stored, self._unfinished = self._unfinished, None
        if stored is not None and self._durable:
            with suppress(BusAway):  # then it comes again
                await self.connection.link().publish(stored.delivery.reply, how)
