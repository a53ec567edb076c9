"""Reading news: from now on, or with a name under which NATS remembers how far it was read.

Over a lost connection a reader goes on after the last message that it handed over. A stream that
was made again is read from its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from tessera_runtime.bus.api import News, NewsRefused
from tessera_runtime.bus.consumer import SECOND_NS, Reader
from tessera_runtime.bus.jetstream import Refused, stream_info
from tessera_runtime.bus.nats_link import Link
from tessera_runtime.bus.pull_session import DONE, NOT_DONE, Kept, Reading
from tessera_runtime.bus.reconnect import Connection
from tessera_runtime.bus.streams import Home
from tessera_runtime.errors import BusAway

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class NewsReader(Reader):
    """An endless iterator over messages."""

    def __init__(self, connection: Connection, subject: str, durable: str) -> None:
        """Raises NewsRefused for a subject that nothing keeps, or an impossible name."""
        super().__init__(connection, f"{subject} {durable}".rstrip())
        self._homes = connection.layout.homes(subject)
        if durable and not _NAME.fullmatch(durable):
            raise NewsRefused(f"durable {durable!r}: write up to 64 letters, digits, `-` and `_`")
        self._durable = durable
        self._places: dict[str, tuple[str, int]] = {}
        """Stream -> when it was made, and the sequence to go on from."""
        self._unfinished: Kept | None = None

    def __aiter__(self) -> NewsReader:
        """It is its own iterator."""
        return self

    async def __anext__(self) -> News:
        """The next message; the one before is told to be done."""
        await self._finish()
        while True:
            await self.begin()
            kept = await self.next()
            if kept is None:
                continue
            stream = kept.home.stream.name
            if not self._durable:
                self._places[stream] = self._places[stream][0], kept.sequence + 1
            news = self.readable(kept)
            self._unfinished = kept
            if news is not None:
                return news
            await self._finish()

    async def readings(self, link: Link) -> Sequence[Reading]:
        """One reading for each stream."""
        if self._durable:
            return [self._durable_reading(home) for home in self._homes]
        return [await self._fleeting_reading(link, home) for home in self._homes]

    def _durable_reading(self, home: Home) -> Reading:
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
        return Reading(home, self._durable, config, lasting=True)

    async def _fleeting_reading(self, link: Link, home: Home) -> Reading:
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": await self._place(link, home.stream.name),
            "ack_policy": "none",
            "filter_subject": home.filter,
            "inactive_threshold": int(self.connection.settings.idle_s * SECOND_NS),
            "mem_storage": True,
            "num_replicas": 1,
        }
        return Reading(home, link.fresh_name(), config)

    async def take_place(self, link: Link) -> None:
        """Fix where "from now on" begins, once, without beginning to read. Raises BusAway."""
        if self._durable:
            return
        for home in self._homes:
            if home.stream.name not in self._places:
                with suppress(Refused):
                    await self._place(link, home.stream.name)

    async def _place(self, link: Link, stream: str) -> int:
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
        kept, self._unfinished = self._unfinished, None
        if kept is not None and self._durable:
            with suppress(BusAway):  # then it comes again
                await self.connection.link().publish(kept.delivery.reply, how)
