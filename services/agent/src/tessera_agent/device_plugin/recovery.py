"""What containers were given before this agent began: by the recorded allocations, and where these
were lost with their file, or the runtime gave the cards then, by what is on the node.

Kubelet says which container has which ids, the API server which uid the pod has, and a hook folder
for the container proves that an agent admitted it. Of init containers kubelet says nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from tessera_agent.admission.prepare import ContainerPreparer
from tessera_agent.api.pod_view import ContainerView, PodView
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage
from tessera_agent.containers.hook_files import ContainerKey, HookFiles
from tessera_agent.device_plugin.allocations import (
    Allocations,
    AllocationStep,
    RecordedAllocation,
)
from tessera_kubelet.pod_resources import PodHolding, PodResources
from tessera_runtime import logs
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.grants import GRANT_KEY

_log: Final = logs.named("tessera.agent.lives")


class AllocationRecovery:
    """Rebuilds holdings from allocations, and allocations from what is on the node."""

    def __init__(
        self, names: frozenset[str], allocations: Allocations, resources: PodResources, *,
        pods: NodePods, holdings: ContainerRegistry, files: HookFiles, preparer: ContainerPreparer,
    ) -> None:  # fmt: skip
        """`names`: of the resources that kubelet allocates."""
        self._names = names
        self._allocations = allocations
        self._resources = resources
        self._pods = pods
        self._holdings = holdings
        self._files = files
        self._preparer = preparer

    def rebuild(self) -> None:
        """Put what the recorded allocations say into the holdings."""
        for one in self._allocations:
            self._put(one)

    async def recover(self) -> None:
        """Find the allocations again that were lost with the file: kubelet has them, and the files
        were made on this node. Raises NodeError where kubelet does not answer."""
        holdings = await self._resources.list()
        made = await asyncio.to_thread(self._files.known)
        found = recovered_allocations(holdings, tuple(self._pods), frozenset(made), self._names)
        try:
            await self._allocations.put(*found)
        except OSError as e:
            _log.warning("allocations not written", why=str(e))
        self.rebuild()
        self._allocations.known.set()
        _log.info("allocations recovered", count=len(found))

    async def adopt(self) -> None:
        """Put containers into the holdings that have files, and of which nothing else is known."""
        made = await asyncio.to_thread(self._files.known)
        for one in given_files(self._pods, frozenset(made)):
            if self._holdings.get(one.key) is None:
                self._put(one)

    def _put(self, one: RecordedAllocation) -> None:
        stage = ContainerStage.CREATED if one.started_at else ContainerStage.ALLOCATED
        found = self._preparer.found(one.sandbox, one.info, stage, adjusted=True)
        if found is not None:
            self._holdings.put(found)


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
    """The same of containers that run, or ran, and whose ids are not known."""
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
