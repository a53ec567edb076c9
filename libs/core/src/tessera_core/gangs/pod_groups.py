"""PodGroup objects of four APIs, and the gang that each describes.

| API group | whose | minimum |
| --- | --- | --- |
| scheduling.volcano.sh | Volcano | spec.minMember, spec.minTaskMember |
| scheduling.sigs.k8s.io | Koordinator | spec.minMember |
| scheduling.x-k8s.io | the coscheduling plugin | spec.minMember |
| scheduling.k8s.io | Kubernetes 1.36 | spec.schedulingPolicy.gang.minCount |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.gangs.durations import seconds_of
from tessera_core.gangs.gang import (
    Gang,
    GangOrigin,
    PreemptibleMembers,
    TopologyDomain,
)
from tessera_core.gangs.koordinator_keys import with_keys
from tessera_schema.kube import ObjectMeta, Quantity

POD_GROUPS: Final[Mapping[str, GangOrigin]] = {
    "scheduling.volcano.sh": GangOrigin.VOLCANO,
    "scheduling.sigs.k8s.io": GangOrigin.KOORDINATOR,
    "scheduling.x-k8s.io": GangOrigin.COSCHEDULING,
    "scheduling.k8s.io": GangOrigin.KUBERNETES,
}
"""API group of a PodGroup -> whose it is."""
COSCHEDULING_PATIENCE_S: Final = 60.0
_PREEMPTABLE: Final = "volcano.sh/preemptable"
_SLA_WAITING: Final = "volcano.sh/sla-waiting-time"
_VOLCANO_QUEUE: Final = "default"
_SCHEDULED: Final = "Scheduled"
_STARTED: Final = (_SCHEDULED, "Running", "Finished")


class GangPolicy(Struct, frozen=True, rename="camel"):
    """Kubernetes: so many start together."""

    min_count: int = 0


class SchedulingPolicy(Struct, frozen=True):
    """Kubernetes: `gang`, or `basic` for pods that go one by one."""

    gang: GangPolicy | None = None


class TopologyConstraint(Struct, frozen=True):
    """Kubernetes: the label whose value the members' nodes share."""

    key: str = ""


class SchedulingConstraints(Struct, frozen=True):
    """Kubernetes: where the members have to be."""

    topology: tuple[TopologyConstraint, ...] = ()


class NetworkTopology(Struct, frozen=True):
    """Volcano: how close nodes have to be in its own trees."""

    mode: str = "hard"


class PodGroupSpec(Struct, frozen=True, rename="camel"):
    """What of a PodGroup's spec is read, of all four APIs."""

    min_member: int = 0
    min_task_member: dict[str, int] = {}
    min_resources: dict[str, Quantity] = {}
    queue: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    schedule_timeout_seconds: float | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[dict[str, Any], ...] = ()
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    disruption_mode: Any = None
    """`single` or `all`, as text or as the only key of a mapping."""
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()


class PodGroupCondition(Struct, frozen=True):
    """One condition."""

    type: str = ""
    status: str = ""


class PodGroupStatus(Struct, frozen=True):
    """What of a PodGroup's status is read: whether enough pods have ever had a node."""

    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] | None = None


class PodGroup(Struct, frozen=True):
    """A PodGroup of any API."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus | None = None

    @property
    def has_started(self) -> bool:
        """Whether its status says that as many pods as its minimum had a node once. Volcano's
        condition stays when members are lost; phases are those of Koordinator and of the
        coscheduling plugin."""
        status = self.status or PodGroupStatus()
        said = PodGroupCondition(type=_SCHEDULED, status="True")
        return said in (status.conditions or ()) or status.phase in _STARTED


class BadPodGroup(ValueError):
    """A field of a PodGroup makes no sense."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        """Where, what is written there, and what would do."""
        super().__init__(f"{field}: {value!r}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy


def gang_of(origin: GangOrigin, group: PodGroup) -> Gang:
    """The gang that the object describes. Raises BadPodGroup."""
    _check(group.spec)
    meta = group.metadata
    gang = Gang(
        origin=origin, namespace=meta.namespace or "default", name=meta.name,
        min=group.spec.min_member, created=meta.creation_timestamp or "",
        priority=group.spec.priority, priority_class=group.spec.priority_class_name,
        started=group.has_started,
        source=f"PodGroup {meta.namespace or 'default'}/{meta.name}: spec.minMember",
    )  # fmt: skip
    gang = _READ[origin](gang, group)
    total = max(gang.total, gang.min)
    return replace(gang, total=total, bundle=gang.bundle or (gang.key,))


def _check(spec: PodGroupSpec) -> None:
    numbers: dict[str, float | None] = {
        "minMember": spec.min_member,
        "scheduleTimeoutSeconds": spec.schedule_timeout_seconds,
        **{f"minTaskMember[{role}]": least for role, least in spec.min_task_member.items()},
    }
    if spec.scheduling_policy.gang is not None:
        numbers["schedulingPolicy.gang.minCount"] = spec.scheduling_policy.gang.min_count
    for field, number in numbers.items():
        if number is not None and number < 0:
            raise BadPodGroup(f"spec.{field}", number, "write a whole number, 0 or more")


def _volcano(gang: Gang, group: PodGroup) -> Gang:
    spec, meta = group.spec, group.metadata
    warnings, problem = [], ""
    roles = dict(spec.min_task_member)
    if roles and spec.min_member < sum(roles.values()):
        warnings.append(
            f"{gang.source}: {spec.min_member} is below the sum of spec.minTaskMember: minima of "
            "tasks do not count, as in Volcano"
        )
        roles = {}
    topology = spec.network_topology
    if topology is not None and topology.mode == "hard":
        problem = (
            f"PodGroup {gang.key}: spec.networkTopology.mode: hard: trees of the network are not "
            "read: write soft, or a node label in the pods' nodeSelector"
        )
    elif topology is not None:
        warnings.append(f"PodGroup {gang.key}: spec.networkTopology: has no effect")
    if spec.sub_group_policy:
        warnings.append(f"PodGroup {gang.key}: spec.subGroupPolicy: has no effect")
    preemptable = meta.annotations.get(_PREEMPTABLE, meta.labels.get(_PREEMPTABLE, "true"))
    may = preemptable in ("1", "t", "T", "true", "TRUE", "True")
    return replace(
        gang, roles=roles, queue=spec.queue or _VOLCANO_QUEUE,
        queue_field=f"PodGroup {gang.key}: spec.queue",
        patience_s=seconds_of(meta.annotations.get(_SLA_WAITING, "")),
        preemptible=PreemptibleMembers.ALL if may else PreemptibleMembers.NONE,
        warnings=tuple(warnings), problem=problem,
    )  # fmt: skip


def _koordinator(gang: Gang, group: PodGroup) -> Gang:
    gang = with_keys(gang, group.metadata, f"PodGroup {gang.key}: ")
    seconds = group.spec.schedule_timeout_seconds
    return gang if seconds is None else replace(gang, patience_s=seconds)


def _coscheduling(gang: Gang, group: PodGroup) -> Gang:
    seconds = group.spec.schedule_timeout_seconds
    return replace(gang, patience_s=COSCHEDULING_PATIENCE_S if seconds is None else seconds)


def _kubernetes(gang: Gang, group: PodGroup) -> Gang:
    spec = group.spec
    policy = spec.scheduling_policy.gang
    mode = spec.disruption_mode
    single = "all" not in (mode if isinstance(mode, dict) else (str(mode).lower(),))
    keys = [each.key for each in spec.scheduling_constraints.topology if each.key]
    return replace(
        gang, min=policy.min_count if policy is not None else 0,
        source=f"PodGroup {gang.key}: spec.schedulingPolicy.gang.minCount",
        preemptible=PreemptibleMembers.SURPLUS if single else PreemptibleMembers.ALL,
        domain=TopologyDomain(keys[0]) if keys else None,
        warnings=tuple(
            f"PodGroup {gang.key}: spec.schedulingConstraints.topology: {key}: only the first key "
            "counts"
            for key in keys[1:]
        ),
    )  # fmt: skip


_READ: Final[Mapping[GangOrigin, Callable[[Gang, PodGroup], Gang]]] = {
    GangOrigin.VOLCANO: _volcano,
    GangOrigin.KOORDINATOR: _koordinator,
    GangOrigin.COSCHEDULING: _coscheduling,
    GangOrigin.KUBERNETES: _kubernetes,
}
