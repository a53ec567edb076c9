"""Messages that came on a subscription and wait to be taken."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.errors import BusAway

REQUESTS_MOST_BYTES: Final = 4 << 20
"""Of requests that wait for their turn: anybody with a password of the bus may send them, and each
is answered after the one before it. What streams deliver is asked for in batches, and has no need
of this."""
_EACH_BYTES: Final = 1024
"""What a message takes besides its data."""
_log: Final = logs.named("tessera.bus")


class Delivery(Struct, frozen=True):
    """A message as it came. `status` is 0 unless NATS itself says something."""

    subject: str
    headers: Mapping[str, str]
    data: bytes
    reply: str
    status: int = 0


class Inbox:
    """What comes on a subscription, in order, until its link is lost."""

    def __init__(self, subject: str, most_bytes: int | None = None) -> None:
        """`subject` is what was subscribed to. Messages that would make those that wait more than
        `most_bytes` are dropped, and the first of them is logged."""
        self.subject = subject
        self._most_bytes = most_bytes
        self._waiting_bytes = 0
        self._dropping = False
        self._queue: asyncio.Queue[Delivery | BusAway] = asyncio.Queue()

    @property
    def empty(self) -> bool:
        """True when `get` would wait."""
        return self._queue.empty()

    def put(self, item: Delivery | BusAway) -> None:
        """Add a message, or the reason why no more will come."""
        if isinstance(item, Delivery) and not self._has_room(item):
            if not self._dropping:
                _log.warning("requests dropped", subject=self.subject, most_bytes=self._most_bytes)
            self._dropping = True
            return
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
        self._waiting_bytes -= _size(item)
        if self._queue.empty():
            self._dropping = False
        return item

    def drain(self) -> list[Delivery]:
        """What nobody has taken."""
        left = []
        while not self._queue.empty():
            item = self._queue.get_nowait()
            if isinstance(item, Delivery):
                left.append(item)
        self._waiting_bytes = 0
        return left

    def _has_room(self, delivery: Delivery) -> bool:
        bytes_ = self._waiting_bytes + _size(delivery)
        if self._most_bytes is not None and bytes_ > self._most_bytes:
            return False
        self._waiting_bytes = bytes_
        return True


def _size(delivery: Delivery) -> int:
    return len(delivery.data) + _EACH_BYTES
