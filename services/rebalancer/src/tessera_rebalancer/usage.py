"""What agents measure, smoothed as it comes.

Containers write it, so nobody trusts it for more than this: it decides no grant and no limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

import msgspec

from tessera_core.rebalance.smoothing import Smoother
from tessera_runtime import logs
from tessera_runtime.bus.api import Bus, News
from tessera_runtime.bus.latest import Latest
from tessera_schema import subjects
from tessera_schema.telling import decode_usage

_log: Final = logs.named("tessera.rebalancer.usage")


class Usage:
    """Takes in."""

    def __init__(self, smoother: Smoother, now: Callable[[], float]) -> None:
        """`now` is the loop's time."""
        self.taken = self.late = self.unreadable = 0
        """Messages that counted, that were late or repeats, and that made no sense."""
        self.fresh: set[str] = set()
        """Nodes of which something new was measured; whoever looks takes them out."""
        self._smoother = smoother
        self._now = now
        self._latest: Latest[None] = Latest()

    async def listen(self, bus: Bus, cluster: str) -> NoReturn:
        """Take in what every node tells, for ever."""
        async with bus.news(subjects.usage(cluster, "*")) as told:
            async for news in told:
                self.take(news)
        raise AssertionError("news never ends")

    def take(self, news: News) -> None:
        """One message; repeats and late ones change nothing."""
        try:
            usage = decode_usage(news.data)
        except msgspec.DecodeError as e:
            self.unreadable += 1
            _log.warning("usage not readable", subject=news.subject, why=str(e))
            return
        key = f"{usage.node}/{usage.vendor}"
        if self._latest.offer(key, news.envelope, None) and self._smoother.take(usage, self._now()):
            self.taken += 1
            self.fresh.add(usage.node)
        else:
            self.late += 1

    def forget(self) -> None:
        """Drop nodes that have been silent for long."""
        self._smoother.forget(self._now())
        known, heard = set(self._smoother.nodes()), self._latest.keys()
        for key in heard:
            if key.rpartition("/")[0] not in known:
                self._latest.forget(key)
