"""What agents measure, smoothed as it comes.

`tessera_core.reports` says what counts. No grant is decided by it: hints, bounds for lending and
plans are made of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec

from tessera_core.reports.agents import AgentReports, ReceivedReport
from tessera_core.reports.usage import GrantOf
from tessera_core.slices import Slices
from tessera_core.usage.smoothed import SmoothContainer
from tessera_core.usage.smoother import Smoother
from tessera_runtime.bus.api import Bus, Message
from tessera_schema import subjects

_AT_ONCE: Final = 20
"""Messages received before other tasks on the loop run, when many wait: some milliseconds."""


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
        self._reports = reports
        self._grant_of = grant_of
        self._now = now
        self._measured: set[tuple[str, str]] = set()
        """Nodes and vendors of which the smoother has something."""

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
        report = ReceivedReport(
            subject=message.subject, envelope=message.envelope, data=message.data
        )
        try:
            usage = self._reports.usage(report, self._grant_of)
        except msgspec.DecodeError:
            self.unreadable += 1
            return
        if usage is not None and self.smoother.take(usage, self._now()):
            self.taken += 1
            self.fresh.add(usage.node)
            self._measured.add((usage.node, usage.vendor))
        else:
            self.late += 1

    def containers(self) -> Slices[list[SmoothContainer]]:
        """Containers of which something was measured lately, once for each of their cards; a node
        in each slice."""
        now, found = self._now(), list[SmoothContainer]()
        for name in self.smoother.nodes():
            node = self.smoother.node(name, now)
            for card in node.cards if node is not None else ():
                found += card.containers
            yield
        return found

    def forget(self) -> None:
        """Drop nodes that have been silent for long."""
        self.smoother.forget(self._now())
        known = set(self.smoother.nodes())
        for node, vendor in [each for each in self._measured if each[0] not in known]:
            self._measured.discard((node, vendor))
            self._reports.silent(node, vendor)
