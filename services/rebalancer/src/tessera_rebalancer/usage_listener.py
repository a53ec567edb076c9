"""What agents measure, smoothed as it comes.

`tessera_core.reports` says what counts. No grant is decided by it: hints, bounds for lending and
plans are made of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NoReturn

import msgspec

from tessera_core.reports.agents import AgentReports
from tessera_core.reports.usage import GrantOf
from tessera_core.usage.smoothed import SmoothContainer
from tessera_core.usage.smoother import Smoother
from tessera_runtime.bus.api import Bus, Message
from tessera_schema import subjects

_AT_ONCE: Final = 20
"""Messages received before other tasks on the loop run, when many wait: some milliseconds."""


class MeasuredContainers(Iterable[SmoothContainer]):
    """Containers of which something was measured lately, once for each of their cards. They are
    made as they are read, each time: 100,000 of them take 40 MB."""

    def __init__(self, smoother: Smoother, now: Callable[[], float]) -> None:
        """`now` is the loop's time."""
        self._smoother = smoother
        self._now = now

    def __iter__(self) -> Iterator[SmoothContainer]:
        """Node by node; nodes may come and go meanwhile."""
        for name in self._smoother.nodes():
            node = self._smoother.node(name, self._now())
            for card in node.cards if node is not None else ():
                yield from card.containers


class UsageConsumer:
    """Receives usage reports, and smooths what counts."""

    def __init__(
        self, smoother: Smoother, reports: AgentReports, grant_of: GrantOf,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        """`now` is the loop's time."""
        self.taken = self.late = self.unreadable = 0
        """Messages that counted, that were late, repeats or of others, and that could not be
        decoded."""
        self.fresh: set[str] = set()
        """Nodes of which something new was measured; the reader takes them out."""
        self.smoother = smoother
        self.containers = MeasuredContainers(smoother, now)
        self._reports = reports
        self._grant_of = grant_of
        self._now = now

    async def listen(self, bus: Bus, cluster: str) -> NoReturn:
        """Receive what every node reports, for ever."""
        async with bus.subscribe(subjects.usage(cluster, "*")) as messages:
            number = 0
            async for message in messages:
                self.receive(message)
                number += 1
                if not number % _AT_ONCE:
                    await asyncio.sleep(0)
        raise AssertionError("a subscription never ends")

    def receive(self, message: Message) -> None:
        """Count one message; repeats and late ones change nothing."""
        try:
            usage = self._reports.usage(message, self._grant_of)
        except msgspec.DecodeError:
            self.unreadable += 1
            return
        if usage is not None and self.smoother.take(usage, self._now()):
            self.taken += 1
            self.fresh.add(usage.node)
        else:
            self.late += 1

    def forget(self) -> None:
        """Drop nodes that have been silent for long."""
        for node, vendor in self.smoother.forget(self._now()):
            self._reports.silent(node, vendor)
