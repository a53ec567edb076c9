"""What is used of Koordinator's ElasticQuotas, asked for and left to them, written on the objects
as Koordinator's scheduler does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tessera_core.gang_scheduling.view import QueueDemand
from tessera_core.gang_status.elastic_quotas import StatusQuota, quota_patch
from tessera_core.gang_status.writers import wrote_lately
from tessera_core.gangs.queue_objects import QueueReader
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_runtime.kube.timestamps import parse_time
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.cache.reflectors import ReflectorFactory, Watch
from tessera_scheduler.gang_status.writes import MANAGER, StatusWrites
from tessera_schema.json_codec import decoder

EVERY_S: Final = 5.0
"""Seconds between two looks at all quotas."""
_API: Final = ("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas")
_decode: Final = decoder(StatusQuota)


def quota_path(quota: StatusQuota) -> str:
    """Where the object is."""
    meta = quota.metadata
    return paths.in_group(*_API, namespace=meta.namespace or "default", name=meta.name)


class StatusQuotas:
    """Koordinator's ElasticQuotas; a handler."""

    def __init__(self) -> None:
        """None is known yet."""
        self.known: dict[str, StatusQuota] = {}
        """By id."""

    @staticmethod
    def read(raw: bytes | msgspec.Raw) -> StatusQuota:
        """Raises msgspec.DecodeError."""
        return _decode(bytes(raw))

    def on_list(self, items: list[StatusQuota], started: float, now: float) -> None:
        """Take all of them."""
        self.known = {item.id: item for item in items}

    def on_event(self, change: WatchEventType, item: StatusQuota, now: float) -> None:
        """Take one that was added, modified or deleted."""
        if change is WatchEventType.DELETED:
            self.known.pop(item.id, None)
        else:
            self.known[item.id] = item

    def watch(self, reflectors: ReflectorFactory) -> Watch:
        """A watch of them; where the kind is not installed, it is checked for again."""
        return reflectors.optional(ListWatch(paths.in_group(*_API), self.read), self)


class QuotaStatusWriter:
    """Writes what differs, every few seconds."""

    def __init__(
        self,
        quotas: StatusQuotas,
        demands: Callable[[], Mapping[str, QueueDemand]],
        reader: QueueReader,
        writes: StatusWrites,
        clock: MonotonicClock,
    ) -> None:
        """Quotas as a watch shows them; `demands` gives the numbers by quota's name, `reader` has
        the units of resource names."""
        self._quotas = quotas
        self._demands = demands
        self._reader = reader
        self._writes = writes
        self._clock = clock
        self._next = 0.0
        self._sent: dict[str, bytes] = {}
        """The last patch that was done. The same again, for the same version, would do nothing: a
        definition without the status' fields drops them."""
        self._others: set[str] = set()

    @property
    def others(self) -> int:
        """How many quotas are not written because somebody else writes them."""
        return len(self._others)

    async def write(self) -> None:
        """Write what differs, where it is time."""
        now, known = self._clock.time(), dict(self._quotas.known)
        if now < self._next:
            return
        self._next = now + EVERY_S
        self._others &= known.keys()
        self._sent = {key: patch for key, patch in self._sent.items() if key in known}
        demands = self._demands() if known else {}
        for key in sorted(known):
            quota = known[key]
            demand = demands.get(quota.metadata.name)
            patch = b"" if demand is None else quota_patch(quota, demand, self._reader)
            if patch and patch != self._sent.get(key) and self._is_own(quota, now):
                done = await self._writes.quota(quota_path(quota), patch)
                self._sent[key] = patch if done else b""

    def _is_own(self, quota: StatusQuota, now: float) -> bool:
        if wrote_lately(quota.metadata, MANAGER, now, parse_time, "f:used"):
            self._others.add(quota.id)
            return False
        self._others.discard(quota.id)
        return True
