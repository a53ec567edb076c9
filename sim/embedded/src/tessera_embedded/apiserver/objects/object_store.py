"""The objects themselves: one counter of versions, shelves of records, and a log of changes.

A record keeps an object as the bytes that go out, without kind and apiVersion (an object may be
served in several versions), so lists and watches copy bytes, and nobody can change what is kept.
The log is bounded; what has fallen out of it can only be listed again. No I/O: `on_change` is
called for every write, before any watch has it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from tessera_embedded.apiserver.errors import JsonObject
from tessera_embedded.apiserver.objects.resources import Resource, Shelf
from tessera_embedded.apiserver.objects.selectors import selectable

WINDOW: Final = 20_000
"""Changes remembered of each kind, so that a watcher can resume."""
HISTORY_BYTES: Final = 16 << 20
"""Of the objects in those changes, if that is less: some 3,000 changes of pods. Until twice as much
is there nothing is forgotten, so that forgetting costs little; watch events made of them are as
large once more."""


class StoredObject(Struct, frozen=True):
    """One object as it was written at one version."""

    key: str
    """`namespace/name`, or `name` where there is no namespace; lists are in its order."""
    namespace: str
    name: str
    uid: str
    version: int
    labels: dict[str, str]
    fields: dict[str, str]
    body: bytes

    def obj(self) -> JsonObject:
        """A fresh copy of the object, without kind and apiVersion."""
        decoded: JsonObject = msgspec.json.decode(self.body)
        return decoded

    def encoded(self, resource: Resource) -> bytes:
        """The object as JSON in one version of its kind."""
        if not resource.renames:
            return resource.prefix + self.body[1:]
        names = {stored: here for here, stored in resource.renames}
        renamed = {names.get(k, k): v for k, v in self.obj().items()}
        return resource.prefix + msgspec.json.encode(renamed)[1:]


class StoredChange(Struct):
    """One write: `previous` is None for a new object, `gone` is True for a removed one."""

    version: int
    record: StoredObject
    previous: StoredObject | None = None
    gone: bool = False
    frames: dict[tuple[str, bytes], bytes] = {}
    """Watch events made of it, by type and kind: encoded once, however many watch."""


class KindStore:
    """All objects of one kind and what happened to them lately."""

    def __init__(self, window: int, floor: int) -> None:
        self.records: dict[str, StoredObject] = {}
        self.keys: list[str] = []
        self.log: list[StoredChange] = []
        self.floor = floor
        """Changes up to this version are forgotten."""
        self.dropped = 0
        """How many changes were forgotten: a position in the log outlives trimming."""
        self.listeners: set[Callable[[], None]] = set()
        self._window = window
        self._bytes = 0
        """Of the objects in the log."""

    def apply(self, change: StoredChange) -> None:
        """Take a change in and notify the listeners."""
        record = change.record
        if change.gone:
            del self.records[record.key]
            del self.keys[bisect_left(self.keys, record.key)]
        else:
            if record.key not in self.records:
                insort(self.keys, record.key)
            self.records[record.key] = record
        self.log.append(change)
        self._bytes += len(record.body)
        if len(self.log) > 2 * self._window or self._bytes > 2 * HISTORY_BYTES:
            self.forget(self._too_many())
        for listener in tuple(self.listeners):
            listener()

    def forget(self, count: int) -> None:
        """Forget the oldest `count` changes."""
        if count:
            self.floor = self.log[count - 1].version
            self.dropped += count
            self._bytes -= sum(len(change.record.body) for change in self.log[:count])
            del self.log[:count]

    def _too_many(self) -> int:
        """How many of the oldest changes are beyond what is remembered."""
        count, left = max(len(self.log) - self._window, 0), self._bytes
        left -= sum(len(change.record.body) for change in self.log[:count])
        while left > HISTORY_BYTES:
            left -= len(self.log[count].record.body)
            count += 1
        return count

    def position(self, version: int) -> int:
        """Where in the log the changes after `version` begin, counted from the first ever."""
        return self.dropped + bisect_right(self.log, version, key=lambda c: c.version)

    def at(self, version: int) -> dict[str, StoredObject | None]:
        """What differs from now as of a remembered version: key to record, None where absent."""
        differs: dict[str, StoredObject | None] = {}
        for change in reversed(self.log[self.position(version) - self.dropped :]):
            differs[change.record.key] = change.previous
        return differs

    def between(self, start: str, end: str | None) -> Iterator[str]:
        """The keys from `start` up to but without `end`, in order."""
        first = bisect_left(self.keys, start)
        last = bisect_left(self.keys, end) if end is not None else len(self.keys)
        return iter(self.keys[first:last])


class ObjectStore:
    """Every object of every kind, under one counter of versions."""

    def __init__(
        self,
        *,
        window: int = WINDOW,
        on_change: Callable[[Shelf, StoredChange], None] = lambda _shelf, _change: None,
    ) -> None:
        self.version = 0
        self.on_change = on_change
        self._window, self._floor = window, 0
        self._shelves: dict[Shelf, KindStore] = {}

    def kind_store(self, shelf: Shelf) -> KindStore:
        """The objects of one kind."""
        if shelf not in self._shelves:
            self._shelves[shelf] = KindStore(self._window, self._floor)
        return self._shelves[shelf]

    def shelves(self) -> tuple[Shelf, ...]:
        """The kinds that were ever used."""
        return tuple(self._shelves)

    def find(self, shelf: Shelf, namespace: str, name: str) -> StoredObject | None:
        """The object, or None."""
        return self.kind_store(shelf).records.get(key_of(namespace, name))

    def records(self, shelf: Shelf) -> list[StoredObject]:
        """All objects of a kind, in the order of their keys."""
        kept = self.kind_store(shelf)
        return [kept.records[key] for key in kept.keys]

    def put(self, shelf: Shelf, obj: JsonObject) -> StoredObject:
        """Write an object, new or changed; its resourceVersion is set."""
        record = self._stamped(shelf, obj)
        previous = self.kind_store(shelf).records.get(record.key)
        self._commit(shelf, StoredChange(record.version, record, previous))
        return record

    def remove(self, shelf: Shelf, record: StoredObject) -> StoredObject:
        """Remove an object; its last state comes back with the version of its removal."""
        last = self._stamped(shelf, record.obj())
        self._commit(shelf, StoredChange(last.version, last, record, gone=True))
        return last

    def replay(self, shelf: Shelf, version: int, obj: JsonObject, *, gone: bool) -> None:
        """Take in a change that was written before: no hook is called."""
        record = record_of(shelf, obj, version)
        previous = self.kind_store(shelf).records.get(record.key)
        self.version = max(self.version, version)
        if gone and previous is None:
            return
        self.kind_store(shelf).apply(StoredChange(version, record, previous, gone=gone))

    def compact(self, version: int = 0) -> None:
        """Forget all changes so far, as etcd's compaction does: older watches answer 410.

        The counter goes on from `version` where that is higher.
        """
        self._floor = self.version = max(self.version, version)
        for kept in self._shelves.values():
            kept.forget(len(kept.log))
            kept.floor = self.version

    def _stamped(self, shelf: Shelf, obj: JsonObject) -> StoredObject:
        version = self.version + 1
        obj["metadata"]["resourceVersion"] = str(version)
        return record_of(shelf, obj, version)

    def _commit(self, shelf: Shelf, change: StoredChange) -> None:
        self.on_change(shelf, change)
        self.version = change.version
        self.kind_store(shelf).apply(change)


def key_of(namespace: str, name: str) -> str:
    """The key that orders and finds an object of a kind."""
    return f"{namespace}/{name}" if namespace else name


def record_of(shelf: Shelf, obj: JsonObject, version: int) -> StoredObject:
    """The record of an object; kind and apiVersion must be gone from it."""
    metadata = obj["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    return StoredObject(
        key=key_of(namespace, name),
        namespace=namespace,
        name=name,
        uid=metadata.get("uid", ""),
        version=version,
        labels=dict(metadata.get("labels", {})),
        fields=selectable(obj, shelf),
        body=msgspec.json.encode(obj),
    )
