"""All gangs of a cluster with their members: from PodGroups and pods, whatever order they come in.

The object decides what it says; what it does not say the pods do, the first one that makes sense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.gangs.gang import Gang, GangMembers, GangOrigin, MatchPolicy
from tessera_core.gangs.group_names import (
    KUEUE_TOTAL,
    NamedGroup,
    TwoGroups,
    foreign_gates,
    member_of,
    named_group,
)
from tessera_core.gangs.koordinator_keys import minimum_of, with_keys
from tessera_schema.kube import Pod

QUEUE_FIELDS: Final = (
    ("annotations", "scheduling.volcano.sh/queue-name"),
    ("labels", "quota.scheduling.koordinator.sh/name"),
)
"""Where a pod names its queue."""
_API: Final = {
    GangOrigin.VOLCANO: "podgroups.scheduling.volcano.sh",
    GangOrigin.KOORDINATOR: "podgroups.scheduling.sigs.k8s.io",
    GangOrigin.COSCHEDULING: "podgroups.scheduling.x-k8s.io",
    GangOrigin.KUBERNETES: "podgroups.scheduling.k8s.io",
}
_FAILED: Final = "Failed"

Bar = Callable[[Pod], str]
"""Why a pod that waits cannot be placed by Tessera; empty when it can."""


class GangCatalog(Struct, frozen=True):
    """The gangs of a cluster."""

    gangs: Mapping[str, GangMembers]
    """Gang's id -> the gang with its members. PodGroups without pods are among them."""
    of_pod: Mapping[str, str]
    """Pod's uid -> its gang's id."""
    refused: Mapping[str, str]
    """Uid of a pod that is in no gang though it names one -> why: fields, values and remedy."""

    def bundle(self, gang: Gang) -> tuple[GangMembers | str, ...]:
        """The gangs that start together with the gang, itself among them, in the order of their
        names; of one that does not exist its key."""
        prefix = gang.origin.value
        return tuple(self.gangs.get(f"{prefix}/{key}", key) for key in gang.bundle or (gang.key,))


def read_gangs(pods: Iterable[Pod], groups: Iterable[Gang], bar: Bar = lambda _: "") -> GangCatalog:
    """The gangs that pods name and objects describe. `groups` are those of PodGroups
    (`pod_groups.gang_of`); of pods that have ended only those that ended well count."""
    objects = {gang.id: gang for gang in groups}
    members: dict[str, list[Pod]] = {gang: [] for gang in objects}
    named: dict[str, NamedGroup] = {}
    of_pod: dict[str, str] = {}
    refused: dict[str, str] = {}
    for pod in pods:
        group = named_group(pod)
        if isinstance(group, TwoGroups):
            refused[pod.metadata.uid] = group.message
        elif group is not None and pod.status.phase != _FAILED:
            named.setdefault(group.id, group)
            members.setdefault(group.id, []).append(pod)
            of_pod[pod.metadata.uid] = group.id
    gangs = {}
    for gang_id, found in members.items():
        gang = objects.get(gang_id) or _of_pods(named[gang_id], found)
        gang, others = _with_queue(gang, found)
        for pod, why in others:
            refused[pod.metadata.uid] = why
            del of_pod[pod.metadata.uid]
        left = [pod for pod in found if pod.metadata.uid in of_pod]
        gangs[gang_id] = _sorted(_checked(gang, left), left, bar)
    return GangCatalog(_bundled(gangs), of_pod, refused)


def _bundled(gangs: Mapping[str, GangMembers]) -> dict[str, GangMembers]:
    """The gangs with bundles that are the same for all of a bundle: one gang that names another one
    is enough."""
    bundle_of: dict[str, set[str]] = {}
    for gang_id, members in gangs.items():
        prefix = members.gang.origin.value
        joined = {gang_id, *(f"{prefix}/{key}" for key in members.gang.bundle)}
        for each in tuple(joined):
            joined |= bundle_of.get(each, set())
        bundle_of |= dict.fromkeys(joined, joined)
    return {
        gang_id: replace(members, gang=_in_bundle(members.gang, bundle_of[gang_id]))
        for gang_id, members in gangs.items()
    }


def _in_bundle(gang: Gang, ids: Iterable[str]) -> Gang:
    return replace(gang, bundle=tuple(sorted(each.partition("/")[2] for each in ids)))


def _of_pods(named: NamedGroup, pods: Sequence[Pod]) -> Gang:
    """The gang as its pods describe it, where there is no object."""
    gang = Gang(
        origin=named.origin, namespace=named.namespace, name=named.name, min=0,
        bundle=(f"{named.namespace}/{named.name}",),
    )  # fmt: skip
    if named.origin is GangOrigin.KOORDINATOR:
        minima = ((pod, minimum_of(pod)) for pod in pods)
        first = next(((pod, written) for pod, written in minima if written is not None), None)
        if first is not None:
            pod, (least, field) = first
            gang = replace(gang, min=least, source=field)
            return with_keys(gang, pod.metadata, f"pod {pod.name}: ")
    if named.origin is GangOrigin.KUEUE:
        return _of_kueue(gang, pods)
    own = " or annotate a pod with gang.scheduling.koordinator.sh/min-available"
    or_pods = own if named.origin is GangOrigin.KOORDINATOR else ""
    return replace(
        gang, source=f"PodGroup {gang.key}",
        problem=f"{named.field}: {named.name}: PodGroup {gang.key} does not exist: create it"
        f"{or_pods}; if it does, show it too (kubectl get {_API[named.origin]} -A -o json)",
    )  # fmt: skip


def _of_kueue(gang: Gang, pods: Sequence[Pod]) -> Gang:
    field = f"metadata.annotations[{KUEUE_TOTAL}]"
    for pod in pods:
        text = pod.metadata.annotations.get(KUEUE_TOTAL, "")
        if text.isdecimal() and text.isascii() and 0 < len(text) < 10:
            total = int(text)
            return replace(
                gang, min=total, total=total, match=MatchPolicy.ONCE,
                source=f"pod {pod.name}: {field}",
            )  # fmt: skip
    text = pods[0].metadata.annotations.get(KUEUE_TOTAL, "")
    said = f"{text}: not a number of pods" if text else "missing"
    return replace(
        gang, problem=f"pod {pods[0].name}: {field}: {said}: write how many pods the group has"
    )


def _with_queue(gang: Gang, pods: Sequence[Pod]) -> tuple[Gang, list[tuple[Pod, str]]]:
    """The gang with its queue, and the pods that name another one where the object names none."""
    if gang.queue:
        return gang, []
    others: list[tuple[Pod, str]] = []
    for pod in pods:
        queue, field = queue_named(pod)
        if queue and not gang.queue:
            gang = replace(gang, queue=queue, queue_field=f"pod {pod.name}: {field}")
        elif queue and queue != gang.queue:
            why = f"{field}: {queue}: its gang {gang.key} is in queue {gang.queue}: write that one"
            others.append((pod, why))
    return gang, others


def queue_named(pod: Pod) -> tuple[str, str]:
    """The queue that a pod names, and the field; both empty where it names none."""
    for where, key in QUEUE_FIELDS:
        value = getattr(pod.metadata, where).get(key, "")
        if value:
            return value, f"metadata.{where}[{key}]"
    return "", ""


def _checked(gang: Gang, pods: Sequence[Pod]) -> Gang:
    """Kubernetes refuses a whole group whose members differ in what must be equal."""
    if gang.origin is not GangOrigin.KUBERNETES or gang.problem or not gang.together:
        return gang
    for field, value in (("schedulerName", "scheduler_name"), ("priority", "priority")):
        values = {str(getattr(pod.spec, value) or "") for pod in pods}
        if len(values) > 1:
            said = ", ".join(sorted(each or "none" for each in values))
            return replace(
                gang, problem=f"PodGroup {gang.key}: its pods have spec.{field} {said}: "
                "kube-scheduler takes a group only if all have the same: write one",
            )  # fmt: skip
    return gang


def _sorted(gang: Gang, pods: Sequence[Pod], bar: Bar) -> GangMembers:
    barred = dict(_barred(pods, bar))
    waiting = [
        member_of(pod) for pod in pods
        if not pod.spec.node_name and not pod.terminal and pod.name not in barred
    ]  # fmt: skip
    bound = [member_of(pod) for pod in pods if pod.spec.node_name and not pod.terminal]
    return GangMembers(
        gang=gang,
        waiting=tuple(sorted(waiting, key=lambda member: member.order)),
        barred=barred,
        bound=tuple(sorted(bound, key=lambda member: member.order)),
        succeeded=sum(pod.terminal for pod in pods),
    )


def _barred(pods: Iterable[Pod], bar: Bar) -> Iterator[tuple[str, str]]:
    for pod in pods:
        if pod.spec.node_name or pod.terminal:
            continue
        gates = foreign_gates(pod)
        if pod.metadata.deletion_timestamp is not None:
            yield pod.name, "it is being deleted"
        elif gates:
            yield pod.name, f"spec.schedulingGates: {', '.join(gates)}: others open it"
        elif why := bar(pod):
            yield pod.name, why
