"""Watches: a place in the log of changes, and the events that lie after it.

A watch holds no queue of its own, so thousands of them cost little; each event is encoded once for
all. One that falls behind what the log remembers is closed, as a slow watcher of the real server
is, and its client resumes or lists again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tessera_embedded.apiserver.errors import ApiError, ResourceExpired, invalid, not_allowed
from tessera_embedded.apiserver.http_types import RequestTarget
from tessera_embedded.apiserver.objects.object_store import ObjectStore, StoredChange, StoredObject
from tessera_embedded.apiserver.verbs.read import ListFilter, filter_of, too_large, version_of

INITIAL_END: Final = "k8s.io/initial-events-end"


def _nobody() -> None:
    """No one waits yet."""


class KindWatch:
    """The events of one kind, filtered, from a version on.

    `pull()` gives what is new and never waits. `on_news`, if set, is called once whenever there may
    be something to pull, also when the watch was closed. The opener of a watch closes it.
    """

    def __init__(
        self,
        objects: ObjectStore,
        target: RequestTarget,
        wanted: ListFilter,
        query: Mapping[str, str],
    ) -> None:
        self.on_change: Callable[[], None] = _nobody
        self.closed = False
        self.wants_bookmarks = query.get("allowWatchBookmarks", "") in ("true", "1")
        self._objects, self._target, self._wanted = objects, target, wanted
        self._kept = objects.kind_store(target.resource.shelf)
        self._ready: list[bytes] = []
        self._next, self._after = 0, 0
        try:
            self._begin(query)
        except ApiError as e:
            self._ready, self.closed = [_frame("ERROR", msgspec.json.encode(e.status()))], True
            return
        self._kept.listeners.add(self._notified)

    def pull(self) -> list[bytes]:
        """The events since the last pull, one JSON object and a newline each."""
        ready, self._ready = self._ready, []
        if self.closed:
            return ready
        first = self._next - self._kept.dropped
        if first < 0:
            self.close()
            return ready
        for change in self._kept.log[first:]:
            if (frame := self._event(change)) is not None:
                ready.append(frame)
        self._next = self._kept.dropped + len(self._kept.log)
        return ready

    def bookmark(self) -> bytes:
        """The event that says how far the watch has come; pull everything first."""
        return self._bookmark({})

    def close(self) -> None:
        """End the watch; pulling gives nothing more."""
        self._kept.listeners.discard(self._notified)
        self.closed = True
        self.on_change()

    def _begin(self, query: Mapping[str, str]) -> None:
        asked = version_of(query)
        streams = query.get("sendInitialEvents", "")
        if streams == "true" and asked is not None and asked > self._objects.version:
            raise too_large(asked, self._objects.version)
        if streams == "true" or (not asked and streams != "false"):
            self._show_all(ending=streams == "true")
        elif asked and asked < self._kept.floor:
            raise ResourceExpired(f"too old resource version: {asked} ({self._kept.floor})")
        self._after = asked or 0
        self._next = self._kept.position(asked if asked and streams != "true"
                                         else self._objects.version)  # fmt: skip

    def _show_all(self, *, ending: bool) -> None:
        for record in self._objects.records(self._target.resource.shelf):
            if self._wanted.takes(record):
                self._ready.append(_frame("ADDED", record.encoded(self._target.resource)))
        if ending and self.wants_bookmarks:
            self._ready.append(self._bookmark({INITIAL_END: "true"}))

    def _notified(self) -> None:
        self.on_change()

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        resource = self._target.resource
        metadata: dict[str, object] = {
            "resourceVersion": str(self._objects.version), "creationTimestamp": None,
        }  # fmt: skip
        if annotations:
            metadata["annotations"] = annotations
        body = msgspec.json.encode({"metadata": metadata})
        return _frame("BOOKMARK", resource.prefix + body[1:])

    def _event(self, change: StoredChange) -> bytes | None:
        if change.version <= self._after:
            return None
        now = not change.gone and self._wanted.takes(change.record)
        before = self._wanted.takes(change.previous)
        if now:
            return self._shared("MODIFIED" if before else "ADDED", change)
        if before:
            return self._shared("DELETED", change)
        return None

    def _shared(self, kind: str, change: StoredChange) -> bytes:
        resource = self._target.resource
        key = (kind, resource.prefix)
        if key not in change.frames:
            record = change.record
            if kind == "DELETED" and not change.gone and change.previous is not None:
                record = _as_of(change.previous, change.version)
            change.frames[key] = _frame(kind, record.encoded(resource))
        return change.frames[key]


def open_watch(objects: ObjectStore, target: RequestTarget, query: Mapping[str, str]) -> KindWatch:
    """Begin a watch. A bad selector raises BadRequest; a version too old becomes an ERROR event."""
    version_of(query)
    _check_options(query)
    return KindWatch(objects, target, filter_of(target, query), query)


def _check_options(query: Mapping[str, str]) -> None:
    streams, match = query.get("sendInitialEvents", ""), query.get("resourceVersionMatch", "")
    why = ""
    if streams and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif match and not streams:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    if why:
        cause = not_allowed("resourceVersionMatch", why)
        raise invalid("ListOptions", "meta.k8s.io", "", [cause])


def _as_of(record: StoredObject, version: int) -> StoredObject:
    obj = record.obj()
    obj["metadata"]["resourceVersion"] = str(version)
    return msgspec.structs.replace(record, body=msgspec.json.encode(obj))


def _frame(kind: str, encoded: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded)
