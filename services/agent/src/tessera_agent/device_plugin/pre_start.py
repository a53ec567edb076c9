"""Whether a container may start that was allocated its cards: kubelet asks before each start, and
tries again where it is refused.

Only now does kubelet list which container has which ids. So this is where it shows whether Allocate
answered for the right one; and where room next to what runs is decided on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tessera_agent.admission.admission import ContainerAdmitter
from tessera_agent.admission.prepare import ContainerPreparer, refusal_text
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage
from tessera_agent.device_plugin.allocations import NOT_KNOWN, Allocations, RecordedAllocation
from tessera_agent.device_plugin.pod_match import Named, disagreement, listed
from tessera_agent.events import ContainerAlert, EventPublisher
from tessera_core.node.container_admission import Granted, NoDevices, RefusalReason, Refused
from tessera_kubelet.device_plugin.types import AllocateRefused
from tessera_kubelet.errors import NodeError
from tessera_kubelet.nri.types import PodSandbox
from tessera_kubelet.pod_resources import PodHolding, PodResources

_RANK: Final = {
    ContainerStage.ALLOCATED: 0,
    ContainerStage.ENDED: 1,
    ContainerStage.CREATED: 2,
    ContainerStage.RUNNING: 3,
}
"""Which of several containers starts: the lowest."""


class PreStartCheck:
    """Answers PreStartContainer."""

    def __init__(
        self, admitter: ContainerAdmitter, preparer: ContainerPreparer, allocations: Allocations,
        resources: PodResources, *, holdings: ContainerRegistry, pods: NodePods,
        publisher: EventPublisher,
    ) -> None:  # fmt: skip
        self._admitter = admitter
        self._preparer = preparer
        self._allocations = allocations
        self._resources = resources
        self._holdings = holdings
        self._pods = pods
        self._publisher = publisher

    async def pre_start(self, resource: str, ids: Sequence[str]) -> AllocateRefused | None:
        """Whether the container that has these ids may start now."""
        if not self._allocations.known.is_set():
            return AllocateRefused(NOT_KNOWN)
        try:
            holdings = await self._resources.list()
        except NodeError as e:
            return AllocateRefused(f"kubelet does not say whose these are: {e}")
        recorded = self._allocations.of(resource, ids)
        if refused := self._disagrees(recorded, holdings, resource, ids):
            return refused
        return await self._start(self._starting(recorded))

    def _disagrees(
        self, recorded: Sequence[RecordedAllocation], holdings: Sequence[PodHolding],
        resource: str, ids: Sequence[str],
    ) -> AllocateRefused | None:  # fmt: skip
        by_kubelet = listed(holdings, resource, ids)
        problem = disagreement(recorded, holdings, resource, ids) or next(
            (
                f"we gave them to pod {one.namespace}/{one.pod} ({one.uid}), which is gone"
                for one in recorded if self._is_gone(one)
            ), "" if recorded else "we gave them to nobody",
        )  # fmt: skip
        if problem:
            message = f"ids of {resource}: {problem}: delete the pod"
            self._alert(recorded, by_kubelet, message)
            return AllocateRefused(message)
        if not by_kubelet and not any(map(self._is_init, recorded)):
            return AllocateRefused(f"ids of {resource}: kubelet does not say yet whose they are")
        return None

    def _alert(
        self, recorded: Sequence[RecordedAllocation], by_kubelet: Sequence[Named], message: str
    ) -> None:
        """Alert on every pod that is recorded or that kubelet names."""
        about = {(one.namespace, one.pod, one.container): one.sandbox for one in recorded}
        shown = {(pod.namespace, pod.name): pod for pod in self._pods}
        for namespace, name, container in by_kubelet:
            pod = shown.get((namespace, name))
            found = PodSandbox(id="", name=name, uid=pod.uid if pod else "", namespace=namespace)
            about.setdefault((namespace, name, container), found)
        for (_, _, container), sandbox in about.items():
            self._publisher.alert(sandbox, container, ContainerAlert.MISMATCH, message)

    def _is_gone(self, one: RecordedAllocation) -> bool:
        held = self._holdings.get(one.key)
        return self._pods.is_gone(one.uid, held.since if held else float("-inf"))

    def _is_init(self, one: RecordedAllocation) -> bool:
        shown = self._pods.get(one.uid)
        container = shown.get(one.container) if shown else None
        return container is not None and container.init

    def _starting(self, recorded: Sequence[RecordedAllocation]) -> RecordedAllocation:
        """Of containers of a pod that have the same ids the one that has not started yet, or does
        not run. Where that is not the one, its status corrects it."""

        def rank(one: RecordedAllocation) -> int:
            held = self._holdings.get(one.key)
            return _RANK[held.stage] if held else 0

        return min(recorded, key=rank)

    async def _start(self, one: RecordedAllocation) -> AllocateRefused | None:
        held = self._holdings.get(one.key)
        pod = held.pod if held else one.sandbox
        match self._admitter.admit(pod, one.container):
            case Refused() as refused:
                return self._refuse(pod, one.container, refused)
            case Granted() as granted:
                prepared = self._preparer.prepare(pod, one.info, granted)
                if isinstance(prepared, Refused):
                    return AllocateRefused(refusal_text(prepared))
                self._preparer.commit(prepared)
            case NoDevices():
                pass
        try:
            await self._allocations.mark_started(one)
        except OSError as e:
            message = f"that it starts cannot be written down: {e}: see the agent's folder"
            refused = Refused(why=RefusalReason.NOT_PREPARED, message=message)
            return self._refuse(pod, one.container, refused)
        return None

    def _refuse(self, pod: PodSandbox, container: str, refused: Refused) -> AllocateRefused:
        return AllocateRefused(refusal_text(self._preparer.refuse(pod, container, refused)))
