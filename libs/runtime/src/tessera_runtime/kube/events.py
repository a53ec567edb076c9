"""Kubernetes Events: what `kubectl describe pod` shows.

    async with open_events(kube, settings.events, component="tessera-agent", clock=clock) as events:
        events.record(about, "HookInactive", "limits are not enforced: ...", warning=True)

Recording never waits and never fails. The same event about the same object again becomes a count on
the one that is there; what comes faster than the limits is dropped and counted, and so is what
cannot be written: an Event is a courtesy, and the log has the rest.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiNotFound, TesseraError, Transient
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.settings import EventSettings

log = logs.named("tessera.kube.events")

_NAME_MOST: Final = 200
_MESSAGE_MOST: Final = 1024
"""As the API server allows."""
_RETRY_S: Final = 5.0
_TICK_S: Final = 0.001
"""Added to each wait: timers may fire by the clock's resolution too early."""


class ObjectRef(Struct, frozen=True):
    """The object that an event is about."""

    kind: str
    name: str
    namespace: str = ""
    """Empty for nodes; their events are kept in `default`."""
    uid: str = ""
    api_version: str = "v1"


def of_pod(pod: PodKey) -> ObjectRef:
    """Events that `kubectl describe pod` shows."""
    return ObjectRef("Pod", pod.name, pod.namespace, pod.uid)


class _Key(Struct, frozen=True):
    about: ObjectRef
    reason: str
    message: str
    warning: bool


class _Known(Struct):
    """One event: how often it was recorded, and what of that is written."""

    key: _Key
    first: float
    last: float
    name: str = ""
    """Of the Event object, once there is one."""
    count: int = 0
    written_at: float = float("-inf")
    waiting: bool = False


class EventRecorder:
    """Writes Kubernetes Events, in its own time; `open_events` makes it."""

    def __init__(
        self, kube: Kube, settings: EventSettings, component: str, node: str, clock: Clock
    ) -> None:
        self.dropped = 0
        """Events that were recorded and not written."""
        self._kube, self._settings, self._clock = kube, settings, clock
        self._component, self._node = component, node
        self._known: OrderedDict[_Key, _Known] = OrderedDict()
        self._due: list[tuple[float, int, _Known]] = []
        self._recorded = asyncio.Event()
        self._number = 0
        self._tokens = float(settings.burst)
        self._tokens_at = _now()

    def record(self, about: ObjectRef, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event about an object: `reason` in one CamelCase word, `message` for people."""
        key = _Key(about, reason, message[:_MESSAGE_MOST], warning)
        now = self._clock.time()
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known(key, now, now)
        self._known.move_to_end(key)
        known.count += 1
        known.last = now
        if not known.waiting:
            self._wait(known, known.written_at + self._settings.again_s)
        while len(self._known) > self._settings.remembered:
            self._known.popitem(last=False)

    async def write(self) -> NoReturn:
        """Write what was recorded, for ever."""
        while True:
            self._recorded.clear()
            wait_s = self._due[0][0] - _now() if self._due else None
            if wait_s is not None and wait_s <= 0:
                known = heapq.heappop(self._due)[2]
                known.waiting = False
                await self._token()
                await self._written(known)
                continue
            try:
                async with asyncio.timeout(None if wait_s is None else wait_s + _TICK_S):
                    await self._recorded.wait()
            except TimeoutError:
                continue

    def _wait(self, known: _Known, due: float) -> None:
        if len(self._due) >= self._settings.waiting:
            self.dropped += 1
            return
        known.waiting = True
        self._number += 1
        heapq.heappush(self._due, (due, self._number, known))
        self._recorded.set()

    async def _token(self) -> None:
        while True:
            now = _now()
            gained = (now - self._tokens_at) * self._settings.per_second
            self._tokens = min(self._tokens + gained, self._settings.burst)
            self._tokens_at = now
            if self._tokens >= 1:
                self._tokens -= 1
                return
            await asyncio.sleep(_TICK_S + (1 - self._tokens) / self._settings.per_second)

    async def _written(self, known: _Known) -> None:
        try:
            await self._put(known)
        except Transient as e:
            log.info("event not written yet", why=str(e))
            self._wait(known, _now() + _RETRY_S)
        except TesseraError as e:
            self.dropped += 1
            log.warning("event not written", reason=known.key.reason, why=str(e))
        known.written_at = _now()

    async def _put(self, known: _Known) -> None:
        if known.name:
            count = {"count": known.count, "lastTimestamp": _stamp(known.last)}
            try:
                await self._kube.call(
                    Verb.PATCH,
                    self._path(known.key.about, known.name),
                    body=msgspec.json.encode(count),
                    kind=Body.MERGE_PATCH,
                )
            except ApiNotFound:  # an Event lives for an hour
                known.name = ""
            else:
                return
        name = f"{known.key.about.name[:_NAME_MOST]}.{self._clock.time_ns():x}"
        body = msgspec.json.encode(self._event(known, name))
        await self._kube.call(Verb.POST, self._path(known.key.about), body=body)
        known.name = name

    def _path(self, about: ObjectRef, name: str = "") -> str:
        return paths.in_core(about.namespace or "default", "events", name)

    def _event(self, known: _Known, name: str) -> dict[str, object]:
        about = known.key.about
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": about.namespace or "default"},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "reason": known.key.reason,
            "message": known.key.message,
            "type": "Warning" if known.key.warning else "Normal",
            "count": known.count,
            "firstTimestamp": _stamp(known.first),
            "lastTimestamp": _stamp(known.last),
            "source": {"component": self._component, "host": self._node},
            "reportingComponent": self._component,
            "reportingInstance": self._node or self._component,
        }


@asynccontextmanager
async def open_events(
    kube: Kube, settings: EventSettings, *, component: str, clock: Clock, node: str = ""
) -> AsyncGenerator[EventRecorder]:
    """Write events until left; what waits then is not written."""
    events = EventRecorder(kube, settings, component, node, clock)
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(events.write(), name="event writer")
        try:
            yield events
        finally:
            writing.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _stamp(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
