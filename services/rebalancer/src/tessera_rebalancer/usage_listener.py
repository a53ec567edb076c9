"""What agents measure, smoothed as it comes.

It counts as `tessera_core.reports` says, and decides no grant: hints, bounds for lending and plans
are made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import msgspec

from tessera_core.reports.agents import AgentReports, ReceivedReport
from tessera_core.reports.usage import GrantOf
from tessera_core.usage.smoother import Smoother
from tessera_runtime.bus.api import Bus, Message
from tessera_schema import subjects


class UsageConsumer:
    """Takes in."""

    def __init__(
        self, smoother: Smoother, reports: AgentReports, grant_of: GrantOf,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        """`now` is the loop's time."""
        self.taken = self.late = self.unreadable = 0
        """Messages that counted, that were late, repeats or of others, and that made no sense."""
        self.fresh: set[str] = set()
        """Nodes of which something new was measured; whoever looks takes them out."""
        self._smoother = smoother
        self._reports = reports
        self._grant_of = grant_of
        self._now = now
        self._measured: set[tuple[str, str]] = set()
        """Nodes and vendors of which the smoother has something."""

    async def listen(self, bus: Bus, cluster: str) -> NoReturn:
        """Take in what every node reports, for ever."""
        async with bus.subscribe(subjects.usage(cluster, "*")) as told:
            async for news in told:
                self.receive(news)
        raise AssertionError("news never ends")

    def receive(self, news: Message) -> None:
        """One message; repeats and late ones change nothing."""
        message = ReceivedReport(subject=news.subject, envelope=news.envelope, data=news.data)
        try:
            usage = self._reports.usage(message, self._grant_of)
        except msgspec.DecodeError:
            self.unreadable += 1
            return
        if usage is not None and self._smoother.take(usage, self._now()):
            self.taken += 1
            self.fresh.add(usage.node)
            self._measured.add((usage.node, usage.vendor))
        else:
            self.late += 1

    def forget(self) -> None:
        """Drop nodes that have been silent for long."""
        self._smoother.forget(self._now())
        known = set(self._smoother.nodes())
        for node, vendor in [each for each in self._measured if each[0] not in known]:
            self._measured.discard((node, vendor))
            self._reports.silent(node, vendor)
