"""Volcano's Job: tasks with templates of their own, and the PodGroup that its controller makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from tessera_cli.place.workloads import Copies, Read, Workload
from tessera_core.gangs.group_names import VOLCANO_GROUP, VOLCANO_INDEX, VOLCANO_ROLE
from tessera_core.gangs.pod_groups import PodGroup, PodGroupSpec
from tessera_schema.kube import ObjectMeta

MOST_MEMBERS: Final = 4096
"""Pods of one task: fewer would leave a gang below its minimum."""
_OF_CRON: Final = "-next"
"""Its Jobs have names of their own."""


def _tasks(job: Workload, suffix: str = "") -> Iterator[Copies]:
    for i, task in enumerate(job.parts("tasks")):
        role = _role(task, i)
        count = task.number("replicas", 1)
        copies = task.copies(count, prefix=f"{job.name}-{role}", most=MOST_MEMBERS)
        yield replace(copies, annotations=partial(_written, job.name + suffix, role))


def _written(group: str, role: str, number: int) -> Mapping[str, str]:
    """What the controller writes on the pod of that number."""
    return {VOLCANO_GROUP: group, VOLCANO_ROLE: role, VOLCANO_INDEX: str(number)}


def _group(job: Workload, suffix: str = "") -> tuple[PodGroup, str]:
    """The Job's PodGroup, and the field that sets its minimum. Without `minAvailable` all pods
    are needed; minima of tasks count if it is at least their sum."""
    roles, pods, planned = {}, 0, 0
    for i, task in enumerate(job.parts("tasks")):
        replicas = task.number("replicas", 1)
        roles[_role(task, i)] = task.number("minAvailable", replicas)
        pods, planned = pods + replicas, planned + min(replicas, MOST_MEMBERS)
    least = job.number("minAvailable", 0) or sum(roles.values())
    if planned < pods:
        least = min(least, planned)
    queue, priority = (job.spec.get(name) or "" for name in ("queue", "priorityClassName"))
    spec = PodGroupSpec(
        min_member=least, queue=str(queue), priority_class_name=str(priority),
        min_task_member=roles if sum(roles.values()) <= least else {},
    )  # fmt: skip
    group = PodGroup(metadata=ObjectMeta(name=job.name + suffix), spec=spec)
    return group, f"{job.where}: {job.field}minAvailable"


def _role(task: Workload, number: int) -> str:
    return str(task.spec.get("name") or f"default{number}")


def _inner(job: Workload) -> Workload:
    return job.part("jobTemplate", "spec")


VOLCANO_JOBS: Final[Mapping[tuple[str, str], Read]] = {
    ("batch.volcano.sh", "Job"): _tasks,
    ("batch.volcano.sh", "CronJob"): lambda job: _tasks(_inner(job), _OF_CRON),
}
"""API group and kind -> the pods it makes."""
GANGS_OF_WORKLOADS: Final[Mapping[tuple[str, str], Callable[[Workload], tuple[PodGroup, str]]]] = {
    ("batch.volcano.sh", "Job"): _group,
    ("batch.volcano.sh", "CronJob"): lambda job: _group(_inner(job), _OF_CRON),
}
"""API group and kind -> the gang that its pods are, and the field that says so."""
