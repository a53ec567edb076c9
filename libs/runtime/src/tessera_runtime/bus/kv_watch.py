"""Watching a bucket: its last values, then each change. Our own, on the bucket's stream, because
nats-py's watch falls silent when its bucket was made again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tessera_runtime.bus.api import Message, Resync
from tessera_runtime.bus.consumer import SECOND_NS, StreamConsumer
from tessera_runtime.bus.nats_link import NatsLink
from tessera_runtime.bus.pull_session import ConsumerSpec
from tessera_runtime.bus.reconnect import ReconnectingClient
from tessera_runtime.bus.streams import StreamSubject


class KeyValueWatch(StreamConsumer):
    """An endless iterator over the values of a bucket's keys."""

    def __init__(self, connection: ReconnectingClient, bucket: str, keys: str) -> None:
        """Raises MessageRejected for a bucket that the layout does not know."""
        super().__init__(connection, f"{bucket}/{keys}")
        stream = connection.layout.bucket(bucket)
        self._home = StreamSubject(stream, f"$KV.{bucket}.{keys}")
        self._last = 0
        connection.use(stream.name)

    def __aiter__(self) -> KeyValueWatch:
        """It is its own iterator."""
        return self

    async def __anext__(self) -> Message | Resync:
        """The next value; a Resync when values follow from the beginning."""
        while True:
            if await self.begin():
                self._last = 0
                return Resync(self.why)
            stored = await self.next()
            if stored is None:
                continue
            if stored.sequence <= self._last:
                await self.end(f"its sequence went back from {self._last} to {stored.sequence}")
                continue
            self._last = stored.sequence
            message = self.readable(stored)
            if message is not None:
                return message

    async def readings(self, link: NatsLink) -> Sequence[ConsumerSpec]:
        """The last message of each subject, then what comes."""
        config = {
            "deliver_policy": "last_per_subject",
            "ack_policy": "none",
            "filter_subject": self._home.filter,
            "inactive_threshold": int(self.connection.settings.idle_s * SECOND_NS),
            "mem_storage": True,
            "num_replicas": 1,
        }
        return [ConsumerSpec(self._home, link.fresh_name(), config)]
