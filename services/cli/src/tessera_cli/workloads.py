"""The pods that a Deployment, StatefulSet, Job or other workload would make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from tessera_cli.errors import Malformed
from tessera_cli.manifests import named

MOST_COPIES: Final = 1000

Tell = Callable[[str], None]


class Copies(Struct, frozen=True):
    """Pods of one template."""

    template: Mapping[str, Any]
    field: str
    """Where the template is in the workload, such as `spec.template.`."""
    names: tuple[str, ...]


class Workload(Struct, frozen=True):
    """One workload object while it is read. Reading raises Malformed."""

    name: str
    spec: Mapping[str, Any]
    where: str
    tell: Tell
    field: str = "spec."

    def number(self, name: str, default: int) -> int:
        """A count of the spec."""
        value = self.spec.get(name, default)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise Malformed(
                self.where, self.field + name, named(value), "write a whole number, 0 or more"
            )
        return value

    def mapping(self, name: str) -> Mapping[str, Any]:
        """A part of the spec."""
        value = self.spec.get(name)
        if not isinstance(value, dict):
            said = "missing" if value is None else named(value)
            raise Malformed(self.where, self.field + name, said, "write a mapping")
        return value

    def copies(self, count: int, *, prefix: str = "", first: int = 0) -> Copies:
        """`count` pods of the template, numbered."""
        if count > MOST_COPIES:
            self.tell(
                f"{self.where}: {count} copies: only {MOST_COPIES} of one workload are planned"
            )
            count = MOST_COPIES
        names = tuple(f"{prefix or self.name}-{first + i}" for i in range(count))
        return Copies(self.mapping("template"), f"{self.field}template.", names)


def _replicas(workload: Workload) -> Iterator[Copies]:
    yield workload.copies(workload.number("replicas", 1))


def _stateful(workload: Workload) -> Iterator[Copies]:
    ordinals = workload.spec.get("ordinals") or {}
    start = Workload(
        workload.name, ordinals if isinstance(ordinals, dict) else {}, workload.where,
        workload.tell, "spec.ordinals.",
    ).number("start", 0)  # fmt: skip
    yield workload.copies(workload.number("replicas", 1), first=start)


def _job(workload: Workload) -> Iterator[Copies]:
    if workload.spec.get("suspend") is True:
        workload.tell(f"{workload.where}: {workload.field}suspend: true: it makes no pods")
        return
    count = workload.number("parallelism", 1)
    if workload.spec.get("completions") is not None:
        count = min(count, workload.number("completions", 1))
    yield workload.copies(count)


def _cron_job(workload: Workload) -> Iterator[Copies]:
    inner = workload.mapping("jobTemplate").get("spec")
    yield from _job(
        Workload(
            workload.name, inner if isinstance(inner, dict) else {}, workload.where,
            workload.tell, "spec.jobTemplate.spec.",
        )
    )  # fmt: skip


def _daemon_set(workload: Workload) -> Iterator[Copies]:
    workload.tell(
        f"{workload.where}: a DaemonSet makes a pod for every node and is not planned: "
        "plan its template as a Pod"
    )
    yield from ()


def _tasks(workload: Workload) -> Iterator[Copies]:
    """A batch job of several tasks, each with a template of its own."""
    tasks = workload.spec.get("tasks")
    if not isinstance(tasks, list):
        raise Malformed(workload.where, "spec.tasks", named(tasks), "write a list of tasks")
    least = workload.number("minAvailable", 0)
    if least > 1:
        workload.tell(
            f"{workload.where}: spec.minAvailable: {least}: gangs are not planned yet: "
            "its pods are planned one by one"
        )
    for i, task in enumerate(tasks):
        field = f"spec.tasks[{i}]."
        if not isinstance(task, dict):
            raise Malformed(workload.where, field.rstrip("."), named(task), "write a mapping")
        part = Workload(workload.name, task, workload.where, workload.tell, field)
        prefix = f"{workload.name}-{task.get('name') or f'default{i}'}"
        yield part.copies(part.number("replicas", 1), prefix=prefix)


WORKLOADS: Final[Mapping[tuple[str, str], Callable[[Workload], Iterator[Copies]]]] = {
    ("apps", "Deployment"): _replicas,
    ("apps", "ReplicaSet"): _replicas,
    ("", "ReplicationController"): _replicas,
    ("apps", "StatefulSet"): _stateful,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("batch.volcano.sh", "Job"): _tasks,
}
"""API group and kind -> the pods it makes."""
