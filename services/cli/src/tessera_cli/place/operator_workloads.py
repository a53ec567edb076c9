"""The pods that workloads of other projects make: training jobs, Ray, sets of jobs, rollouts.

Each is read as its own controller does it, as far as pods of its templates go; names of pods are
close to those of the controllers, not the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tessera_cli.place.workloads import Copies, Read, Workload, at_once, replicas


def _roles(key: str) -> Read:
    """Kubeflow's training jobs: `key` maps roles to replicas and template."""

    def read(workload: Workload) -> Iterator[Copies]:
        policy = workload.spec.get("runPolicy")
        if isinstance(policy, dict) and workload.part("runPolicy").suspended():
            return
        for role in workload.mapping(key):
            part = workload.part(key, str(role))
            prefix = f"{workload.name}-{str(role).lower()}"
            yield part.copies(part.number("replicas", 1), prefix=prefix)

    return read


def _notebook(workload: Workload) -> Iterator[Copies]:
    yield workload.copies(1)


def _ray_cluster(workload: Workload) -> Iterator[Copies]:
    """A head, and groups of workers; a group has as many as it may (KubeRay's bounds)."""
    if workload.suspended():
        return
    yield workload.part("headGroupSpec").copies(1, prefix=f"{workload.name}-head")
    for group in workload.parts("workerGroupSpecs", needed=False):
        if group.suspended():
            continue
        least = group.number("minReplicas", 0)
        count = min(max(group.number("replicas", least), least), group.number("maxReplicas", 2**31))
        hosts = group.number("numOfHosts", 1)
        prefix = f"{workload.name}-{group.spec.get('groupName') or 'workers'}"
        yield group.copies(count * hosts, prefix=prefix)


def _ray_job(workload: Workload) -> Iterator[Copies]:
    if workload.suspended():
        return
    if workload.spec.get("rayClusterSpec") is None and workload.spec.get("clusterSelector"):
        workload.notify(f"{workload.where}: {workload.field}clusterSelector: it makes no cluster")
        return
    yield from _ray_cluster(workload.part("rayClusterSpec"))


def _ray_service(workload: Workload) -> Iterator[Copies]:
    yield from _ray_cluster(workload.part("rayClusterConfig"))


def _job_set(workload: Workload) -> Iterator[Copies]:
    if workload.suspended():
        return
    for job in workload.parts("replicatedJobs"):
        name = f"{workload.name}-{job.spec.get('name') or 'job'}"
        spec = job.part("template", "spec")
        each = at_once(spec)
        yield spec.made(job.number("replicas", 1) * each, _in_groups(name, each))


def _in_groups(start: str, size: int, first: int = 0) -> Callable[[int], str]:
    """Names of pods in groups of so many: the number of the group, and that in it."""
    return lambda i: f"{start}-{i // size}-{first + i % size}"


def _leaders_and_workers(workload: Workload) -> Iterator[Copies]:
    """Groups of `size` pods, of which the first leads and may have a template of its own."""
    groups, both = workload.number("replicas", 1), workload.part("leaderWorkerTemplate")
    workers = max(both.number("size", 1), 1) - 1
    leads = "leaderTemplate" if both.spec.get("leaderTemplate") is not None else "workerTemplate"
    yield both.made(groups, lambda i: f"{workload.name}-{i}", leads)
    yield both.made(groups * workers, _in_groups(workload.name, workers, 1), "workerTemplate")


def _rollout(workload: Workload) -> Iterator[Copies]:
    """Argo's: the template is its own, or that of another workload."""
    if workload.spec.get("template") is None and workload.spec.get("workloadRef") is not None:
        workload.lacks(
            f"{workload.where}: {workload.field}workloadRef: the pods that it makes of another "
            "object's template are not read: the plan is incomplete"
        )
        return
    yield from replicas(workload)


OPERATED: Final[Mapping[tuple[str, str], Read]] = {
    ("kubeflow.org", "PyTorchJob"): _roles("pytorchReplicaSpecs"),
    ("kubeflow.org", "TFJob"): _roles("tfReplicaSpecs"),
    ("kubeflow.org", "XGBoostJob"): _roles("xgbReplicaSpecs"),
    ("kubeflow.org", "PaddleJob"): _roles("paddleReplicaSpecs"),
    ("kubeflow.org", "MXJob"): _roles("mxReplicaSpecs"),
    ("kubeflow.org", "JAXJob"): _roles("jaxReplicaSpecs"),
    ("kubeflow.org", "MPIJob"): _roles("mpiReplicaSpecs"),
    ("kubeflow.org", "Notebook"): _notebook,
    ("ray.io", "RayCluster"): _ray_cluster,
    ("ray.io", "RayJob"): _ray_job,
    ("ray.io", "RayService"): _ray_service,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leaders_and_workers,
    ("argoproj.io", "Rollout"): _rollout,
    ("apps.kruise.io", "CloneSet"): replicas,
    ("apps.kruise.io", "StatefulSet"): replicas,
}
"""API group and kind -> the pods it makes."""
