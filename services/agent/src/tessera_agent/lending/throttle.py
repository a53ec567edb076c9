"""Which namespaces are to get less of their cores because they use more than their quota: what the
quota monitor tells, and tells again every minute for as long as it is so.

News alone, so that an agent needs no right to read quotas, and a thousand agents are no load for
the API server. What was heard last holds for a while after the last telling, then everybody has his
full cores again: a monitor that is gone punishes nobody for ever. An agent that has just started
leaves cores that it finds lowered as they are for as long.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from tessera_runtime import logs
from tessera_runtime.bus.api import Bus
from tessera_schema.quotas import (
    QuotaEvent,
    QuotaExceeded,
    QuotaRestored,
    QuotaThrottled,
    decode_quota,
)
from tessera_schema.subjects import quota

_log: Final = logs.named("tessera.agent.throttling")
FULL: Final = 100.0
MOST_QUOTAS: Final = 4_096
"""Quotas of which something is remembered, and namespaces that were given full cores back. Messages
have names of quotas that are gone, too."""


class _Told(NamedTuple):
    percent: float
    namespaces: frozenset[str]
    heard: float


class ThrottledNamespaces:
    """What holds for each namespace."""

    def __init__(self, vendor: str, changed: asyncio.Event, *, valid_s: float, now: float) -> None:
        """Nothing was heard yet. What is told of other vendors' cards does not count. `changed` is
        set when something else may hold than before."""
        self._changed = changed
        self._vendor = vendor
        self._valid_s = valid_s
        self._began = now
        self._told: dict[tuple[str, str], _Told] = {}
        self._restored: dict[str, None] = {}

    @property
    def remembered(self) -> int:
        """Quotas and namespaces of which something is known."""
        return len(self._told) + len(self._restored)

    def on_message(self, event: QuotaEvent, now: float) -> None:
        """The monitor tells. `now` is the loop's time."""
        self._forget(now)
        key = (event.namespace, event.quota)
        namespaces = frozenset(event.namespaces or (event.namespace,))
        match event:
            case QuotaThrottled(cores_percent=percent, vendor=vendor):
                if vendor in ("", self._vendor):
                    self._told.pop(key, None)  # a dict gives up the one first that was told first
                    self._told[key] = _Told(percent, namespaces, now)
            case QuotaRestored():
                self._told.pop(key, None)
                self._restored.update(dict.fromkeys(namespaces))
            case QuotaExceeded():
                return  # nothing is lowered yet
        _keep(self._told)
        _keep(self._restored)
        self._changed.set()

    def percent(self, namespace: str, now: float) -> float | None:
        """Of the cores that its containers were granted, how much they are to get: the least of
        what holds. None = not known yet: leave it as it is."""
        told = [
            one.percent for one in self._told.values()
            if namespace in one.namespaces and now - one.heard <= self._valid_s
        ]  # fmt: skip
        if told:
            return max(min(told), 0.0)
        known = namespace in self._restored or now - self._began > self._valid_s
        return FULL if known or self._was_told(namespace) else None

    def _forget(self, now: float) -> None:
        """Let go of what holds no more: by then everybody is known to have full cores."""
        for key in [k for k, one in self._told.items() if now - one.heard > self._valid_s]:
            del self._told[key]
        if now - self._began > self._valid_s:
            self._restored.clear()

    def _was_told(self, namespace: str) -> bool:
        return any(namespace in one.namespaces for one in self._told.values())

    async def follow(self, bus: Bus, cluster: str) -> NoReturn:
        """Hear what is told, for ever."""
        loop = asyncio.get_running_loop()
        async with bus.subscribe(quota(cluster, "*", "*")) as messages:
            async for news in messages:
                try:
                    self.on_message(decode_quota(news.data), loop.time())
                except msgspec.DecodeError as e:
                    _log.warning("quota news not readable", why=str(e))
        raise AssertionError("news have no end")


def _keep(told: dict[Any, Any]) -> None:
    """Only the newest `MOST_QUOTAS`."""
    while len(told) > MOST_QUOTAS:
        del told[next(iter(told))]
