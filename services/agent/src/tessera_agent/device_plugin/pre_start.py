"""Whether a container may start that was allocated its cards: kubelet asks before each start, and
tries again where it is refused.

Only now does kubelet say, to whoever asks, which container has which ids. So this is where it shows
whether Allocate answered for the right one; and where room beside what runs is judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.admission.admission import ContainerAdmitter
from tessera_agent.admission.prepare import ContainerPreparer, NotPrepared
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
from tessera_runtime.clock import Clock


class PreStartDependencies(Struct, frozen=True, kw_only=True):
    """What starts are judged by."""

    judge: ContainerAdmitter
    preparing: ContainerPreparer
    holdings: ContainerRegistry
    pods: NodePods
    allocations: Allocations
    resources: PodResources
    teller: EventPublisher
    clock: Clock


class PreStartCheck:
    """Judges starts."""

    def __init__(self, tools: PreStartDependencies) -> None:
        """Nothing was asked."""
        self._do = tools

    async def pre_start(self, resource: str, ids: Sequence[str]) -> AllocateRefused | None:
        """Whether the container that has these ids may start now."""
        if not self._do.allocations.known.is_set():
            return AllocateRefused(NOT_KNOWN)
        try:
            holdings = await self._do.resources.list()
        except NodeError as e:
            return AllocateRefused(f"kubelet does not say whose these are: {e}")
        mine = self._do.allocations.of(resource, ids)
        if refused := self._disagrees(mine, holdings, resource, ids):
            return refused
        return await self._start(self._starting(mine))

    def _disagrees(
        self, mine: Sequence[RecordedAllocation], holdings: Sequence[PodHolding], resource: str,
        ids: Sequence[str],
    ) -> AllocateRefused | None:  # fmt: skip
        theirs = listed(holdings, resource, ids)
        problem = disagreement(mine, holdings, resource, ids) or next(
            (
                f"we gave them to pod {one.namespace}/{one.pod} ({one.uid}), which is gone"
                for one in mine if self._is_gone(one)
            ), "" if mine else "we gave them to nobody",
        )  # fmt: skip
        if problem:
            message = f"ids of {resource}: {problem}: delete the pod"
            self._tell(mine, theirs, message)
            return AllocateRefused(message)
        if not theirs and not any(map(self._is_init, mine)):
            return AllocateRefused(f"ids of {resource}: kubelet does not say yet whose they are")
        return None

    def _tell(
        self, mine: Sequence[RecordedAllocation], theirs: Sequence[Named], message: str
    ) -> None:
        """On every pod that either of us means."""
        about = {(one.namespace, one.pod, one.container): one.sandbox for one in mine}
        shown = {(pod.namespace, pod.name): pod for pod in self._do.pods}
        for namespace, name, container in theirs:
            pod = shown.get((namespace, name))
            found = PodSandbox(id="", name=name, uid=pod.uid if pod else "", namespace=namespace)
            about.setdefault((namespace, name, container), found)
        for (_, _, container), sandbox in about.items():
            self._do.teller.alert(sandbox, container, ContainerAlert.MISMATCH, message)

    def _is_gone(self, one: RecordedAllocation) -> bool:
        held = self._do.holdings.get(one.key)
        return self._do.pods.is_gone(one.uid, held.since if held else float("-inf"))

    def _is_init(self, one: RecordedAllocation) -> bool:
        shown = self._do.pods.get(one.uid)
        container = shown.get(one.container) if shown else None
        return container is not None and container.init

    def _starting(self, mine: Sequence[RecordedAllocation]) -> RecordedAllocation:
        """Of containers of a pod that have the same ids the one that has not started yet, or does
        not run. Where that is not the one, its status puts it right."""
        order = {
            ContainerStage.ALLOCATED: 0,
            ContainerStage.ENDED: 1,
            ContainerStage.CREATED: 2,
            ContainerStage.RUNNING: 3,
        }

        def rank(one: RecordedAllocation) -> int:
            held = self._do.holdings.get(one.key)
            return order[held.stage] if held else 0

        return min(mine, key=rank)

    async def _start(self, one: RecordedAllocation) -> AllocateRefused | None:
        do, held = self._do, self._do.holdings.get(one.key)
        pod = held.pod if held else one.sandbox
        match do.judge.admit(pod, one.container):
            case Refused(why=why, message=message):
                return self._refused(pod, one.container, why, message)
            case Granted() as given:
                answered = do.preparing.prepare(pod, one.info, given, lambda _env, _files: None)
                if isinstance(answered, NotPrepared):
                    return AllocateRefused(f"{answered.why}: {answered.message}")
            case NoDevices():
                pass
        try:
            await do.allocations.put(replace(one, started_at=do.clock.time()))
        except OSError as e:
            message = f"that it starts cannot be written down: {e}: see the agent's folder"
            return self._refused(pod, one.container, RefusalReason.NOT_PREPARED, message)
        return None

    def _refused(
        self, pod: PodSandbox, container: str, why: RefusalReason, message: str
    ) -> AllocateRefused:
        told = self._do.preparing.refused(pod, container, why, message)
        return AllocateRefused(f"{told.why}: {told.message}")
