"""The pods that a Deployment, StatefulSet, Job or other workload would make.

Kinds of other projects are in `tessera_cli.place.operator_workloads`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_cli.errors import Malformed
from tessera_cli.input.manifests import named

MOST_COPIES: Final = 1000
"""Pods of one template; their answers take some 5 KiB each."""

Notify = Callable[[str], None]


class Copies(Struct, frozen=True):
    """Pods of one template."""

    template: Mapping[str, Any]
    field: str
    """Where the template is in the workload, such as `spec.template.`."""
    names: tuple[str, ...]
    annotations: Callable[[int], Mapping[str, str]] = lambda _: {}
    """Number of a pod -> what its controller writes on it."""


class Workload(Struct, frozen=True):
    """One workload object, or a part of it, while it is read. Reading raises Malformed."""

    name: str
    spec: Mapping[str, Any]
    where: str
    notify: Notify
    lacks: Notify
    """Called with what would be made and is not planned."""
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

    def part(self, name: str, key: str = "") -> Workload:
        """A mapping of the spec, or the one of that key in it, read like a spec."""
        inner = replace(self, spec=self.mapping(name), field=f"{self.field}{name}.")
        return inner.part(key) if key else inner

    def parts(self, name: str, *, needed: bool = True) -> Iterator[Workload]:
        """The mappings of a list of the spec."""
        value = self.spec.get(name)
        if value is None and not needed:
            return
        if not isinstance(value, list):
            raise Malformed(self.where, self.field + name, named(value), "write a list")
        for i, each in enumerate(value):
            field = f"{self.field}{name}[{i}]"
            if not isinstance(each, dict):
                raise Malformed(self.where, field, named(each), "write a mapping")
            yield replace(self, spec=each, field=f"{field}.")

    def suspended(self) -> bool:
        """Whether it makes no pods for now; that is reported."""
        if self.spec.get("suspend") is not True:
            return False
        self.notify(f"{self.where}: {self.field}suspend: true: it makes no pods")
        return True

    def copies(
        self, count: int, *, prefix: str = "", first: int = 0, most: int = MOST_COPIES
    ) -> Copies:
        """`count` pods of the template, numbered."""
        start = prefix or self.name
        return self.made(count, lambda i: f"{start}-{first + i}", most=most)

    def made(
        self,
        count: int,
        name: Callable[[int], str],
        template: str = "template",
        most: int = MOST_COPIES,
    ) -> Copies:
        """`count` pods of a template, each with its name."""
        if count > most:
            self.notify(f"{self.where}: {count} copies: only {most} of one workload are planned")
            count = most
        names = tuple(name(i) for i in range(count))
        return Copies(self.mapping(template), f"{self.field}{template}.", names)


def replicas(workload: Workload) -> Iterator[Copies]:
    """So many copies of one template."""
    yield workload.copies(workload.number("replicas", 1))


def _stateful(workload: Workload) -> Iterator[Copies]:
    ordinals = workload.spec.get("ordinals") or {}
    inner = replace(
        workload, spec=ordinals if isinstance(ordinals, dict) else {}, field="spec.ordinals."
    )
    yield workload.copies(workload.number("replicas", 1), first=inner.number("start", 0))


def at_once(job: Workload) -> int:
    """The pods that a Job runs at a time."""
    count = job.number("parallelism", 1)
    if job.spec.get("completions") is not None:
        count = min(count, job.number("completions", 1))
    return count


def _job(workload: Workload) -> Iterator[Copies]:
    if not workload.suspended():
        copies = workload.copies(at_once(workload))
        deadline = workload.number("activeDeadlineSeconds", 0)
        yield copies if not deadline else replace(copies, template=_ended(copies, deadline))


def _ended(copies: Copies, deadline: int) -> Mapping[str, Any]:
    """The template of pods that end with their Job."""
    spec = copies.template.get("spec")
    if not isinstance(spec, dict):
        return copies.template
    own = spec.get("activeDeadlineSeconds")
    least = min(own, deadline) if isinstance(own, int) else deadline
    return {**copies.template, "spec": {**spec, "activeDeadlineSeconds": least}}


def _cron_job(workload: Workload) -> Iterator[Copies]:
    yield from _job(workload.part("jobTemplate", "spec"))


def _daemon_set(workload: Workload) -> Iterator[Copies]:
    workload.notify(
        f"{workload.where}: a DaemonSet makes a pod for every node and is not planned: "
        "plan its template as a Pod"
    )
    yield from ()


Read = Callable[[Workload], Iterator[Copies]]

WORKLOADS: Final[Mapping[tuple[str, str], Read]] = {
    ("apps", "Deployment"): replicas,
    ("apps", "ReplicaSet"): replicas,
    ("", "ReplicationController"): replicas,
    ("apps", "StatefulSet"): _stateful,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
}
"""API group and kind -> the pods it makes."""
