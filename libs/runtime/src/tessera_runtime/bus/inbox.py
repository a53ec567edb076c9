"""Messages that came on a subscription and wait to be taken."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from tessera_runtime.errors import BusAway


class Delivery(Struct, frozen=True):
    """A message as it came. `status` is 0 unless NATS itself says something."""

    subject: str
    headers: Mapping[str, str]
    data: bytes
    reply: str
    status: int = 0


class Inbox:
    """What comes on a subscription, in order, until its link is lost."""

    def __init__(self, subject: str) -> None:
        """`subject` is what was subscribed to."""
        self.subject = subject
        self._queue: asyncio.Queue[Delivery | BusAway] = asyncio.Queue()

    @property
    def empty(self) -> bool:
        """True when `get` would wait."""
        return self._queue.empty()

    def put(self, item: Delivery | BusAway) -> None:
        """Add a message, or the reason why no more will come."""
        self._queue.put_nowait(item)

    async def get(self, within_s: float | None) -> Delivery:
        """The next message. Raises BusAway when there is none in time, or the link is lost.

        None waits as long as it takes.
        """
        try:
            async with asyncio.timeout(within_s):
                item = await self._queue.get()
        except TimeoutError as e:
            raise BusAway(f"nothing came on {self.subject} for {within_s:.1f} s") from e
        if isinstance(item, BusAway):
            self._queue.put_nowait(item)
            raise item
        return item

    def drain(self) -> list[Delivery]:
        """What nobody has taken."""
        left = []
        while not self._queue.empty():
            item = self._queue.get_nowait()
            if isinstance(item, Delivery):
                left.append(item)
        return left
