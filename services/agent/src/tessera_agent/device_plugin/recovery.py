"""What containers were given before, where nothing that was written says so: their allocations were
lost with the file, or the runtime asked for them then.

Kubelet says which container has which ids, the API server whose uid that is, and files that lie
where they are made for whom was judged say that it was us. Of init containers kubelet says nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tessera_agent.api.pod_view import ContainerView, PodView
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.device_plugin.allocations import AllocationStep, RecordedAllocation
from tessera_kubelet.pod_resources import PodHolding
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.grants import GRANT_KEY


def recovered_allocations(
    holdings: Iterable[PodHolding],
    pods: Sequence[PodView],
    made: Collection[ContainerKey],
    names: Collection[str],
) -> tuple[RecordedAllocation, ...]:
    """What containers of these pods have of the resources of these names, as far as files were
    `made` for them."""
    by_name = {(pod.namespace, pod.name): pod for pod in pods if not pod.ended}
    return tuple(
        _allocated(pod, container, resource, ids)
        for holding in holdings
        if (pod := by_name.get((holding.namespace, holding.name))) is not None
        for container, resources in holding.containers.items()
        if ContainerKey(uid=pod.uid, container=container) in made
        for resource, ids in resources.items()
        if ids and resource in names
    )


def given_files(
    pods: Iterable[PodView], made: Collection[ContainerKey]
) -> tuple[RecordedAllocation, ...]:
    """The same of containers that run, or ran, and whose ids nobody knows."""
    return tuple(
        _allocated(pod, container.name, "", ())
        for pod in pods
        for container in pod.containers
        if not pod.ended
        and container.began
        and ContainerKey(uid=pod.uid, container=container.name) in made
    )


def _allocated(pod: PodView, name: str, resource: str, ids: Collection[str]) -> RecordedAllocation:
    container = pod.get(name)
    notes = {GRANT_KEY: pod.grant, TRACE_KEY: pod.traceparent}
    return RecordedAllocation(
        resource=resource,
        ids=tuple(sorted(ids)),
        step=AllocationStep.ALLOCATED,
        uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        container=name,
        notes={key: text for key, text in notes.items() if text},
        started_at=_started_at(container) if container else 0.0,
    )


def _started_at(container: ContainerView) -> float:
    at = [run.started_at for run in (container.runs, *container.ended) if run and run.started_at]
    return max(at).timestamp() if at else 0.0
