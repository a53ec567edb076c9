"""Which namespaces get less of their cores because they use more than their quota, by the messages
of the quota monitor, which repeats them every minute for as long as that holds.

Messages alone, so that an agent needs no right to read quotas, and a thousand agents are no load
for the API server. The last message holds for a while after it came, then all containers have their
full cores again: a monitor that is gone does not lower cores for ever. An agent that has just
started leaves cores that it finds lowered as they are for as long.
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
"""Quotas that are remembered, and namespaces that were given full cores back. Messages name quotas
that are gone, too."""


class _Throttle(NamedTuple):
    percent: float
    namespaces: frozenset[str]
    received: float


class ThrottledNamespaces:
    """How much of its cores each namespace gets."""

    def __init__(self, vendor: str, changed: asyncio.Event, *, valid_s: float, now: float) -> None:
        """Messages about other vendors' cards do not count. `changed` is set when another
        percentage may hold than before. `valid_s`: seconds for which a message holds; `now` is the
        loop's time."""
        self._changed = changed
        self._vendor = vendor
        self._valid_s = valid_s
        self._began = now
        self._throttles: dict[tuple[str, str], _Throttle] = {}
        self._restored: dict[str, None] = {}

    @property
    def remembered(self) -> int:
        """Quotas and namespaces that are remembered."""
        return len(self._throttles) + len(self._restored)

    def on_message(self, event: QuotaEvent, now: float) -> None:
        """Take a message of the monitor. `now` is the loop's time."""
        self._forget(now)
        key = (event.namespace, event.quota)
        namespaces = frozenset(event.namespaces or (event.namespace,))
        match event:
            case QuotaThrottled(cores_percent=percent, vendor=vendor):
                if vendor in ("", self._vendor):
                    self._throttles.pop(
                        key, None
                    )  # the newest last: the first one is dropped first
                    self._throttles[key] = _Throttle(percent, namespaces, now)
            case QuotaRestored():
                self._throttles.pop(key, None)
                self._restored.update(dict.fromkeys(namespaces))
            case QuotaExceeded():
                return  # nothing is lowered yet
        _drop_oldest(self._throttles)
        _drop_oldest(self._restored)
        self._changed.set()

    def percent(self, namespace: str, now: float) -> float | None:
        """Percent that its containers get of the cores that they were granted: the least of what
        holds. None = not known yet: leave it as it is."""
        percentages = [
            one.percent for one in self._throttles.values()
            if namespace in one.namespaces and now - one.received <= self._valid_s
        ]  # fmt: skip
        if percentages:
            return max(min(percentages), 0.0)
        known = namespace in self._restored or now - self._began > self._valid_s
        return FULL if known or self._is_named(namespace) else None

    def _forget(self, now: float) -> None:
        """Forget what holds no more: by then all namespaces are known to have full cores."""
        for key in [k for k, one in self._throttles.items() if now - one.received > self._valid_s]:
            del self._throttles[key]
        if now - self._began > self._valid_s:
            self._restored.clear()

    def _is_named(self, namespace: str) -> bool:
        return any(namespace in one.namespaces for one in self._throttles.values())

    async def follow(self, bus: Bus, cluster: str) -> NoReturn:
        """Receive the monitor's messages, for ever."""
        loop = asyncio.get_running_loop()
        async with bus.subscribe(quota(cluster, "*", "*")) as messages:
            async for message in messages:
                try:
                    self.on_message(decode_quota(message.data), loop.time())
                except msgspec.DecodeError as e:
                    _log.warning("quota news not readable", why=str(e))
        raise AssertionError("a subscription has no end")


def _drop_oldest(entries: dict[Any, Any]) -> None:
    """Leave only the newest `MOST_QUOTAS`."""
    while len(entries) > MOST_QUOTAS:
        del entries[next(iter(entries))]
