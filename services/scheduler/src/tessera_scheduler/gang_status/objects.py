"""PodGroups and queues as their statuses are written: watches of their own, for a group counts
before any pod of it exists."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.gang_status.groups import StatusGroup, StatusMeta
from tessera_core.gangs.gang import GangOrigin
from tessera_core.gangs.queue_objects import QueueObject
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_scheduler.cache.reflectors import ReflectorFactory, Watch
from tessera_schema.json_codec import decoder

GROUPS: Final = {
    GangOrigin.VOLCANO: ("scheduling.volcano.sh", "v1beta1"),
    GangOrigin.KOORDINATOR: ("scheduling.sigs.k8s.io", "v1alpha1"),
}
"""Whose PodGroups -> API group and version."""
QUEUES: Final = "/apis/scheduling.volcano.sh/v1beta1/queues"
_read_group: Final = decoder(StatusGroup)
_read_queue: Final = decoder(QueueObject)


class _WrittenStatus(Struct, frozen=True):
    allocated: dict[str, str | int | float] = {}


class _WrittenQueue(Struct, frozen=True):
    metadata: StatusMeta = StatusMeta()
    status: _WrittenStatus = _WrittenStatus()


_read_written: Final = decoder(_WrittenQueue)


class StatusQueue(Struct, frozen=True):
    """A Volcano Queue, and what its status says is allocated."""

    queue: QueueObject
    allocated: dict[str, str]
    meta: StatusMeta

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.meta.name


def group_path(group: StatusGroup) -> str:
    """Where the object is. Its status is a part of it: the kinds have no status subresource."""
    api, version = GROUPS[group.origin]
    return paths.in_group(
        api, version, "podgroups", namespace=group.namespace, name=group.metadata.name
    )


class StatusGroups:
    """The PodGroups of one system; a handler."""

    def __init__(self, origin: GangOrigin) -> None:
        """None is known yet."""
        self.origin = origin
        self.known: dict[str, StatusGroup] = {}
        """By id."""
        self.changed: set[str] = set()
        """Ids of those that have changed; the reader takes them out."""

    def read(self, raw: bytes | msgspec.Raw) -> StatusGroup:
        """Raises msgspec.DecodeError."""
        return _read_group(bytes(raw)).of(self.origin)

    def on_list(self, items: list[StatusGroup], started: float, now: float) -> None:
        """Take all of them."""
        listed = {item.id: item for item in items}
        self.changed |= {*self.known, *listed}
        self.known = listed

    def on_event(self, change: WatchEventType, item: StatusGroup, now: float) -> None:
        """Take one that was added, modified or deleted."""
        if change is WatchEventType.DELETED:
            self.known.pop(item.id, None)
            self.changed.add(item.id)
        else:
            self.put(item)

    def put(self, item: StatusGroup) -> None:
        """Take one as it is now."""
        if self.known.get(item.id) != item:
            self.known[item.id] = item
            self.changed.add(item.id)


class StatusQueues:
    """Volcano's Queues; a handler."""

    def __init__(self) -> None:
        """None is known yet."""
        self.known: dict[str, StatusQueue] = {}

    @staticmethod
    def read(raw: bytes | msgspec.Raw) -> StatusQueue:
        """Raises msgspec.DecodeError."""
        text = bytes(raw)
        written = _read_written(text)
        allocated = {name: str(amount) for name, amount in written.status.allocated.items()}
        return StatusQueue(_read_queue(text), allocated, written.metadata)

    def on_list(self, items: list[StatusQueue], started: float, now: float) -> None:
        """Take all of them."""
        self.known = {item.name: item for item in items}

    def on_event(self, change: WatchEventType, item: StatusQueue, now: float) -> None:
        """Take one that was added, modified or deleted."""
        if change is WatchEventType.DELETED:
            self.known.pop(item.name, None)
        else:
            self.known[item.name] = item


def status_watches(
    reflectors: ReflectorFactory, groups: list[StatusGroups], queues: StatusQueues | None
) -> list[Watch]:
    """Watches of them; a kind that is not installed is checked for again from time to time."""
    watches: list[Watch] = []
    for each in groups:
        api, version = GROUPS[each.origin]
        path = paths.in_group(api, version, "podgroups")
        watches.append(reflectors.optional(ListWatch(path, each.read), each))
    if queues is not None:
        watches.append(reflectors.optional(ListWatch(QUEUES, queues.read), queues))
    return watches
