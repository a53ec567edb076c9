"""Watches of the PodGroups of four APIs, as far as the cluster serves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from tessera_core.gang_scheduling.registry import GangRegistry
from tessera_core.gangs.gang import Gang, GangOrigin
from tessera_core.gangs.pod_groups import BadPodGroup, PodGroup, gang_of
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_scheduler.cache.reflectors import ReflectorFactory, Watch
from tessera_schema.json_codec import decoder

POD_GROUP_PATHS: Final = (
    ("/apis/scheduling.volcano.sh/v1beta1/podgroups", GangOrigin.VOLCANO),
    ("/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups", GangOrigin.KOORDINATOR),
    ("/apis/scheduling.x-k8s.io/v1alpha1/podgroups", GangOrigin.COSCHEDULING),
    ("/apis/scheduling.k8s.io/v1alpha2/podgroups", GangOrigin.KUBERNETES),
)
_decode = decoder(PodGroup)


class PodGroupHandler:
    """PodGroups of one API go to the registry of gangs."""

    def __init__(
        self, origin: GangOrigin, registry: GangRegistry, changed: Callable[[], object]
    ) -> None:
        """`changed` is called whenever the registry has changed."""
        self._origin = origin
        self._registry = registry
        self._changed = changed

    def read(self, raw: bytes | msgspec.Raw) -> Gang:
        """The gang of an object. Raises msgspec.DecodeError; a field that makes no sense is the
        gang's problem, and its pods wait with it."""
        group = _decode(bytes(raw))
        try:
            return gang_of(self._origin, group)
        except BadPodGroup as e:
            namespace, name = group.metadata.namespace or "default", group.metadata.name
            return Gang(
                origin=self._origin, namespace=namespace, name=name, min=0,
                bundle=(f"{namespace}/{name}",), problem=f"PodGroup {namespace}/{name}: {e}",
            )  # fmt: skip

    def on_list(self, items: list[Gang], started: float, now: float) -> None:
        """Take all PodGroups of the API."""
        self._registry.list_groups(self._origin, items)
        self._changed()

    def on_event(self, change: WatchEventType, item: Gang, now: float) -> None:
        """Take a PodGroup that was added, modified or deleted."""
        if change is WatchEventType.DELETED:
            self._registry.drop_group(item.id)
        else:
            self._registry.put_group(item)
        self._changed()


def pod_group_watches(
    reflectors: ReflectorFactory, registry: GangRegistry, changed: Callable[[], object]
) -> list[Watch]:
    """A watch of each API; one that is not installed is checked for again from time to time."""
    watches: list[Watch] = []
    for path, origin in POD_GROUP_PATHS:
        handler = PodGroupHandler(origin, registry, changed)
        watches.append(reflectors.optional(ListWatch(path, handler.read), handler))
    return watches
