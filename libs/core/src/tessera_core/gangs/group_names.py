"""Which gang a pod names, in five systems.

Sources: Volcano's PodGroup annotations, Koordinator's and the coscheduling plugin's labels,
Kubernetes' `spec.schedulingGroup` (1.36), Kueue's groups of plain pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from tessera_core.gangs.gang import GangMember, GangOrigin
from tessera_schema.kube import Pod

KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
_ANNOTATIONS: Final = "annotations"
_LABELS: Final = "labels"
ADMISSION_GATE: Final = "tessera.dev/admission"
"""Tessera's own scheduling gate."""
VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
VOLCANO_INDEX: Final = "volcano.sh/task-index"
VOLCANO_ROLE: Final = "volcano.sh/task-spec"
_INDEXES: Final = (
    (_ANNOTATIONS, VOLCANO_INDEX),
    (_LABELS, VOLCANO_INDEX),
    (_ANNOTATIONS, "gang.scheduling.koordinator.sh/network-topology-index"),
    (_LABELS, "batch.kubernetes.io/job-completion-index"),
    (_ANNOTATIONS, "batch.kubernetes.io/job-completion-index"),
)


class _Key(NamedTuple):
    origin: GangOrigin
    where: str
    key: str


_KEYS: Final = (
    _Key(GangOrigin.VOLCANO, _ANNOTATIONS, VOLCANO_GROUP),
    _Key(GangOrigin.VOLCANO, _ANNOTATIONS, "scheduling.volcano.sh/group-name"),
    _Key(GangOrigin.KOORDINATOR, _LABELS, "pod-group.scheduling.sigs.k8s.io"),
    _Key(GangOrigin.KOORDINATOR, _LABELS, "pod-group.scheduling.sigs.k8s.io/name"),
    _Key(GangOrigin.KOORDINATOR, _ANNOTATIONS, "gang.scheduling.koordinator.sh/name"),
    _Key(GangOrigin.COSCHEDULING, _LABELS, "scheduling.x-k8s.io/pod-group"),
)
"""The first that is there counts. Kubernetes' field comes after them, Kueue's group last."""


ANNOTATIONS_OF_GANGS: Final = (
    *(each.key for each in _KEYS if each.where == _ANNOTATIONS),
    KUEUE_GROUP,
)
"""Annotations that name a gang."""
LABELS_OF_GANGS: Final = (*(each.key for each in _KEYS if each.where == _LABELS), KUEUE_GROUP)
"""Labels that do."""


class NamedGroup(Struct, frozen=True):
    """The gang that a pod names."""

    origin: GangOrigin
    namespace: str
    name: str
    field: str
    """Where the pod names it."""

    @property
    def id(self) -> str:
        """The same as `Gang.id`."""
        return f"{self.origin.value}/{self.namespace}/{self.name}"


class TwoGroups(Struct, frozen=True):
    """A pod that names two different gangs is in neither."""

    message: str


def named_group(pod: Pod) -> NamedGroup | TwoGroups | None:
    """The gang that the pod names; None where it names none."""
    found = list(_named(pod)) if _names_any(pod) else ()
    if not found:
        return None
    first = found[0]
    other = next((each for each in found if each.name != first.name), None)
    if other is not None:
        return TwoGroups(
            f"{first.field}: {first.name} and {other.field}: {other.name} name two different "
            "groups: a pod is in one; remove one of the two"
        )
    return first


def member_of(pod: Pod) -> GangMember:
    """The pod with its place in its gang."""
    index = next(filter(None, (_value(pod, where, key) for where, key in _INDEXES)), "")
    return GangMember(
        pod=pod,
        role=pod.metadata.annotations.get(VOLCANO_ROLE, ""),
        index=int(index) if index.isdecimal() and index.isascii() else 0,
    )


def foreign_gates(pod: Pod) -> tuple[str, ...]:
    """The scheduling gates of the pod that others have to open."""
    return tuple(gate.name for gate in pod.spec.scheduling_gates if gate.name != ADMISSION_GATE)


def _names_any(pod: Pod) -> bool:
    """Whether a key or a field of a gang is there; most pods have none."""
    meta = pod.metadata
    return not (
        pod.spec.scheduling_group is None
        and meta.labels.keys().isdisjoint(LABELS_OF_GANGS)
        and meta.annotations.keys().isdisjoint(ANNOTATIONS_OF_GANGS)
    )


def _named(pod: Pod) -> Iterator[NamedGroup]:
    """All gangs that the pod names, in the order of systems."""
    namespace, group = pod.metadata.namespace or "default", pod.spec.scheduling_group
    for key in _keys_of(pod):
        value = _value(pod, key.where, key.key)
        if value:
            yield NamedGroup(key.origin, namespace, value, _field(key.where, key.key))
    if group is not None and group.pod_group_name:
        field = "spec.schedulingGroup.podGroupName"
        yield NamedGroup(GangOrigin.KUBERNETES, namespace, group.pod_group_name, field)
    for where in (_LABELS, _ANNOTATIONS):
        value = _value(pod, where, KUEUE_GROUP)
        if value:
            yield NamedGroup(GangOrigin.KUEUE, namespace, value, _field(where, KUEUE_GROUP))
            return


def _keys_of(pod: Pod) -> Sequence[_Key]:
    """Volcano reads its second key only where the first is not there."""
    first = _KEYS[0]
    return (first, *_KEYS[2:]) if _value(pod, first.where, first.key) else _KEYS


def _value(pod: Pod, where: str, key: str) -> str:
    found: dict[str, str] = getattr(pod.metadata, where)
    return found.get(key, "")


def _field(where: str, key: str) -> str:
    return f"metadata.{where}[{key}]"
