"""What the API server holds, reported without a gap: a list, then every change, for ever.

    pods = Reflector(kube, ListWatch(paths.PODS, decoder(Pod)), cache, settings=settings.kube)
    group.create_task(pods.run(), name="pod watcher")
    await pods.synced.wait()

A watch that breaks, ends or falls silent goes on where it was; where the server no longer knows
that place, there is a new list. Nothing that came before a list is reported after it. Changes may
be reported twice, and those between two lists only as the difference of the lists: a handler
compares what it gets with what it has, and never counts events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from enum import StrEnum
from random import Random
from typing import Final, Generic, NoReturn, Protocol, TypeVar

import msgspec
from msgspec import Struct

from tessera_core.slices import Slices, for_each
from tessera_runtime import logs
from tessera_runtime.backoff import Backoff
from tessera_runtime.errors import ApiBusy, ApiLost, Permanent, TesseraError
from tessera_runtime.kube.api import NONE, Kube
from tessera_runtime.kube.lists import ObjectReader, UnreadableObject, event_of, pages
from tessera_runtime.kube.responses import refusal, status_of
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.slice_runner import LoopTurn, in_slices

T = TypeVar("T")

log = logs.named("tessera.kube.reflector")

_EARLY: Final = 0.01
"""Part of the silence that may be missing when it is taken for one: to set a timer again costs as
much as to read a small event."""
_PATIENCE: Final = 8
"""Attempts to go on with a watch, with nothing received, until a list has to do."""


class WatchEventType(StrEnum):
    """What happened to an object, as far as the watch's selectors see it."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


_CHANGES: Final[Mapping[str, WatchEventType]] = {change.value: change for change in WatchEventType}


class Handler(Protocol[T]):
    """What gets the objects. Both methods are called on the loop, do not wait, and raise only for a
    bug, which ends the reflector."""

    def on_list(self, items: list[T], started: float, now: float) -> Slices[None] | None:
        """All that there is: what is not among them is gone, unless it came to be since `started`.

        Both times are the loop's, in seconds. Objects that could not be read were reported before
        this. A long list is taken in slices, between which others on the loop run: no event is
        reported until the last, and until the first list is taken whole nothing is `synced`."""
        ...

    def on_event(self, change: WatchEventType, item: T, now: float) -> None:
        """One object as it is now, or, for DELETED, as it last was."""
        ...


class ListWatch(Struct, Generic[T], frozen=True):
    """What to list and watch."""

    path: str
    """Of the list, such as `paths.PODS`."""
    read: Callable[[bytes], T]
    """Makes of an object's JSON what is kept of it; raises msgspec.DecodeError or ValueError."""
    query: Mapping[str, str] = NONE
    """Selectors, such as `{"fieldSelector": "spec.nodeName=node-7"}`."""


def _report(unreadable: UnreadableObject) -> None:
    """Log an object that no handler gets."""
    log.alert(
        "object not readable",
        path=unreadable.path,
        namespace=unreadable.object.namespace,
        name=unreadable.object.name,
        why=unreadable.why,
    )


class Reflector(Generic[T]):
    """Keeps a handler up to date. `run` it in one task, once."""

    def __init__(
        self,
        kube: Kube,
        watched: ListWatch[T],
        handler: Handler[T],
        *,
        settings: KubeSettings,
        random: Random | None = None,
        unreadable: Callable[[UnreadableObject], None] = _report,
    ) -> None:
        """`unreadable` is called with each object that cannot be read; the handler never sees
        it."""
        self.synced = asyncio.Event()
        """Set once the handler has the first list."""
        self.alive_at = float("-inf")
        """Loop time of the last sign of life: a list, an event, a bookmark."""
        self.lists = 0
        self.events = 0
        self.breaks = 0
        """Watches that ended otherwise than in order; these three are for metrics."""
        self._kube = kube
        self.path = watched.path
        """Of the list."""
        self._watched = watched
        self._handler = handler
        self._settings = settings
        self._random = random if random is not None else Random()  # noqa: S311  (spreads load)
        self._reader = ObjectReader(watched.path, watched.read, unreadable)
        self._version = ""
        self._retries = Backoff(settings.retry_first_s, settings.retry_most_s, self._random)

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        failures = 0
        while True:
            alive_at = self.alive_at
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except TesseraError as e:
                self.breaks += 1
                failures = failures + 1 if alive_at == self.alive_at else 1
                if isinstance(e, Permanent) or failures >= _PATIENCE:
                    self._version = ""
                await self._pause(e)

    async def _pause(self, why: TesseraError) -> None:
        wait_s = self._retries.next()
        if isinstance(why, ApiBusy):
            wait_s = max(wait_s, why.retry_after_s)
        what = "watching again" if self._version else "listing again"
        log.warning(what, path=self._watched.path, why=str(why), wait_s=round(wait_s, 3))
        await asyncio.sleep(wait_s)

    async def _list(self) -> None:
        started = self._now()
        items: list[T] = []
        version = ""
        listed = pages(
            self._kube, self._watched.path, limit=self._settings.page, query=self._watched.query
        )
        async for page in listed:
            await in_slices(
                for_each(page.items or (), lambda raw: items.extend(self._reader.one(raw)))
            )
            version = page.metadata.resource_version
        if not version:
            raise ApiLost(f"list {self._watched.path}: without a resourceVersion")
        self.lists += 1
        self.alive_at = self._now()
        self._version = version
        taking = self._handler.on_list(items, started, self.alive_at)
        if taking is not None:
            await in_slices(taking)
        self.synced.set()

    async def _watch(self) -> None:
        began = self._now()
        last_s = self._settings.watch_s * (1 + self._random.random())
        query = {
            **self._watched.query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(int(last_s) + 1),
        }
        async with self._kube.stream(self._watched.path, query=query) as lines:
            count = await self._follow(lines)
        if not count and self._now() - began < self._settings.retry_most_s:
            raise ApiLost("the watch ended at once and told nothing")

    async def _follow(self, lines: AsyncIterator[bytes]) -> int:
        """Report events until the server ends the watch; returns their number."""
        count, silence_s = 0, self._settings.silence_s
        clock = asyncio.get_running_loop().time
        renewed, turn = clock(), LoopTurn()
        try:
            async with asyncio.timeout(silence_s) as patience:
                async for line in lines:
                    now = clock()
                    self._line(line, now)
                    count += 1
                    await turn.pause()
                    if now - renewed > silence_s * _EARLY:
                        renewed = now
                        patience.reschedule(now + silence_s)
        except TimeoutError as e:
            raise ApiLost(f"silent for {silence_s:g} s") from e
        return count

    def _line(self, line: bytes, now: float) -> None:
        try:
            kind, raw, version = event_of(line)
        except msgspec.DecodeError as e:
            raise self._lost(f"not an event: {e}") from e
        self.alive_at = now
        if kind == "ERROR":
            raise self._ended(raw)
        version = version or self._version
        step = _step(self._version, version)
        if step < 0:  # another history: etcd was restored from a backup
            raise self._lost(f"version {version} after {self._version}")
        self._version = version
        if kind != "BOOKMARK" and step > 0:
            self._report(kind, raw)
        self._retries.reset()

    def _report(self, kind: str, raw: bytes) -> None:
        change = _CHANGES.get(kind)
        if change is None:
            raise self._lost(f"unknown event {kind!r}")
        self.events += 1
        for item in self._reader.one(raw):
            self._handler.on_event(change, item, self.alive_at)

    def _lost(self, why: str) -> ApiLost:
        """An event that makes no sense: only a list shows the present state."""
        self._version = ""
        return ApiLost(f"watch {self._watched.path}: {why}")

    def _ended(self, raw: bytes) -> TesseraError:
        """The server itself ended the watch and said why."""
        why = refusal(f"watch {self._watched.path}", status_of(raw))
        if not isinstance(why, ApiBusy):
            self._version = ""
        return why

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _step(before: str, after: str) -> int:
    """Sign of the difference of two resource versions; of those that are no numbers, 1."""
    if not (before.isdecimal() and after.isdecimal()):
        return 1
    return (int(after) > int(before)) - (int(after) < int(before))
