"""Watches of Volcano's Queues and of ElasticQuotas, as far as the cluster serves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from tessera_core.dialect_kit.contract import BadLimit
from tessera_core.gang_scheduling.queues import SchedulingQueues
from tessera_core.gangs.queue_objects import QueueObject, QueueReader, queue_name
from tessera_core.gangs.queues import (
    KOORDINATOR_QUOTA,
    PLAIN_QUOTA,
    VOLCANO_QUEUE,
    QueueOrigin,
    QueueSpec,
)
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime import logs
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_scheduler.cache.reflectors import ReflectorFactory, Watch
from tessera_schema.json_codec import decoder

QUEUE_PATHS: Final = (
    ("/apis/scheduling.volcano.sh/v1beta1/queues", VOLCANO_QUEUE),
    ("/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas", KOORDINATOR_QUOTA),
    ("/apis/scheduling.x-k8s.io/v1alpha1/elasticquotas", PLAIN_QUOTA),
)
_decode = decoder(QueueObject)
_log = logs.named("tessera.scheduler.queues")


class QueueHandler:
    """Queues of one kind go to the queues that are followed.

    One that makes no sense keeps what it said before: a typing error must not stop a team. One that
    never made sense takes no pods, and says why.
    """

    def __init__(
        self,
        origin: QueueOrigin,
        reader: QueueReader,
        queues: SchedulingQueues,
        changed: Callable[[], object],
    ) -> None:
        """`changed` is called whenever other pods may start than before."""
        self._origin = origin
        self._reader = reader
        self._queues = queues
        self._changed = changed

    def read(self, raw: bytes | msgspec.Raw) -> QueueSpec:
        """The queue of an object. Raises msgspec.DecodeError."""
        written = _decode(bytes(raw))
        try:
            return self._reader.read(self._origin, written)
        except BadLimit as e:
            name = queue_name(self._origin, written.metadata)
            _log.warning("queue not usable", kind=self._origin.kind, queue=name, why=str(e))
            namespace = written.metadata.namespace if self._origin != VOLCANO_QUEUE else ""
            return self._queues.spec(self._origin, name) or QueueSpec(
                origin=self._origin, name=name, namespace=namespace or "", open=False,
                state=f"not usable, {e}",
            )  # fmt: skip

    def on_list(self, items: list[QueueSpec], started: float, now: float) -> None:
        """Take all queues of the kind."""
        before = self._queues.version
        self._queues.list_queues(self._origin, items)
        self._report(before)

    def on_event(self, change: WatchEventType, item: QueueSpec, now: float) -> None:
        """Take a queue that was added, modified or deleted."""
        before = self._queues.version
        if change is WatchEventType.DELETED:
            self._queues.drop_queue(self._origin, item.name)
        else:
            self._queues.put_queue(item)
        self._report(before)

    def _report(self, before: int) -> None:
        if self._queues.version != before:
            self._changed()


def queue_watches(
    reflectors: ReflectorFactory,
    registry: DialectRegistry,
    queues: SchedulingQueues,
    changed: Callable[[], object],
) -> list[Watch]:
    """A watch of each kind; one that is not installed is checked for again from time to time."""
    reader, watches = QueueReader(registry), list[Watch]()
    for path, origin in QUEUE_PATHS:
        handler = QueueHandler(origin, reader, queues, changed)
        watches.append(reflectors.optional(ListWatch(path, handler.read), handler))
    return watches
