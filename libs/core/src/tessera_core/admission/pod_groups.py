"""Signs of gangs and queues on a pod that asks for cards.

Where the scheduler places pods one by one, a user who relies on a gang or a queue is warned,
whatever dialect the pod speaks. How gangs are read where they start whole is in
`tessera_core.gangs`.
"""

from __future__ import annotations

from typing import Final

from tessera_schema.kube import Pod

GROUP_NAMES: Final = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "gang.scheduling.koordinator.sh/name",
)
"""Names of a pod's group in Volcano, the coscheduling plugin and Koordinator; the first that is
there wins."""
_GROUP_SIGNS: Final = (
    "scheduling.volcano.sh/group-min-member",
    "volcano.sh/job-name",
    "volcano.sh/task-spec",
    "pod-group.scheduling.sigs.k8s.io/name",
    "gang.scheduling.koordinator.sh/min-available",
)
_QUEUES: Final = (
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
    "kueue.x-k8s.io/queue-name",
    "quota.scheduling.koordinator.sh/name",
)


def group_of(pod: Pod) -> str:
    """`namespace/name` of the pod's group, empty where it names none."""
    found = _sign(pod, GROUP_NAMES)
    name = found[1] if found else ""
    if pod.spec.scheduling_group is not None:
        name = name or pod.spec.scheduling_group.pod_group_name
    return f"{pod.metadata.namespace or 'default'}/{name}" if name else ""


def warnings(pod: Pod) -> tuple[str, ...]:
    """What a user of groups and queues should know before relying on them."""
    messages = [group_warning(pod)]
    queue = _sign(pod, _QUEUES)
    if queue is not None:
        messages.append(
            f"{queue[0]}: {queue[1]}: Tessera does not divide cards among queues; limit "
            "namespaces with a ResourceQuota or an AcceleratorQuota"
        )
    return tuple(message for message in messages if message)


def group_warning(pod: Pod) -> str:
    """The part of it about groups; empty for a pod that shows no sign of one."""
    group = _sign(pod, (*GROUP_NAMES, *_GROUP_SIGNS))
    if group is None and group_of(pod):
        group = ("spec.schedulingGroup.podGroupName", group_of(pod))
    if group is None:
        return ""
    field, named = group
    return (
        f"{field}: {group_of(pod) or named}: Tessera places the pods of a group one by one "
        "and does not wait until enough of them fit; pods that were placed hold their cards"
    )


def _sign(pod: Pod, keys: tuple[str, ...]) -> tuple[str, str] | None:
    """Field and value of the first of the keys, in annotations or else labels."""
    for where in ("annotations", "labels"):
        found: dict[str, str] = getattr(pod.metadata, where)
        for key in keys:
            if found.get(key):
                return f"metadata.{where}[{key}]", found[key]
    return None
