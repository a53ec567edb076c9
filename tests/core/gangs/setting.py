"""Gangs in short: pods of one card each, PodGroups of each API, and what is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tessera_core.gangs.catalog import GangCatalog, read_gangs
from tessera_core.gangs.gang import Gang, GangOrigin
from tessera_core.gangs.pod_groups import PodGroup, gang_of
from tessera_core.gangs.queue_objects import QueueObject, QueueReader
from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueOrigin, QueueSpec
from tessera_core.registry.registry import load
from tessera_schema.kube import Pod, SchedulingGate, SchedulingGroup
from tessera_testing.builders import a_container, a_pod

GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
VOLCANO_NAME = "scheduling.k8s.io/group-name"
KOORD = "gang.scheduling.koordinator.sh/"
KOORD_LABEL = "pod-group.scheduling.sigs.k8s.io"


def a_member(
    name: str,
    gang: str,
    *,
    role: str = "",
    gates: Sequence[str] = (),
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> Pod:
    """A pod of a Volcano gang."""
    notes = {VOLCANO_NAME: gang, **({"volcano.sh/task-spec": role} if role else {})}
    return a_pod(
        a_container({"nvidia.com/gpu": 1}), name=name, annotations={**notes, **(annotations or {})},
        scheduling_gates=tuple(map(SchedulingGate, gates)), **fields,
    )  # fmt: skip


def a_koord_member(name: str, gang: str = "", **keys: str) -> Pod:
    """A pod of a gang that has no object: `min_available` is the key min-available."""
    notes = {KOORD + key.replace("_", "-"): value for key, value in keys.items()}
    if gang:
        notes[KOORD + "name"] = gang
    return a_pod(a_container({"nvidia.com/gpu": 1}), name=name, annotations=notes)


def a_kubernetes_member(name: str, gang: str, **fields: Any) -> Pod:
    """A pod with Kubernetes' own field."""
    group = SchedulingGroup(pod_group_name=gang)
    return a_pod(a_container({"nvidia.com/gpu": 1}), name=name, scheduling_group=group, **fields)


def a_group(
    name: str,
    origin: GangOrigin = GangOrigin.VOLCANO,
    *,
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Gang:
    """The gang of a PodGroup, its spec in the object's own words. Raises BadPodGroup."""
    meta = {"name": name, "annotations": dict(annotations or {})}
    raw = {"metadata": meta, "spec": spec, "status": status}
    return gang_of(origin, msgspec.convert(raw, PodGroup))


def catalog(pods: Iterable[Pod], *groups: Gang) -> GangCatalog:
    """What is read of pods and PodGroups."""
    return read_gangs(pods, groups)


def a_queue(name: str, origin: QueueOrigin = VOLCANO_QUEUE, **raw: Any) -> QueueSpec:
    """The queue of an object: `metadata`, `spec` and `status`. Raises BadLimit."""
    written = msgspec.convert(raw, QueueObject)
    written = replace(written, metadata=replace(written.metadata, name=name))
    return QueueReader(load()).read(origin, written)
