"""Answers Allocate: what the container gets for which kubelet chose some ids.

The same admission, files and holdings as where the runtime asks; two things differ. Kubelet does
not name the container, so it is found by how much it asks for, and never guessed. And a pod that is
refused here has failed for good, while a start that is refused is tried again; so whether there is
room next to what runs is decided at the start (`pre_start`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from tessera_agent.admission.admission import ContainerAdmitter
from tessera_agent.admission.prepare import (
    ContainerPreparer,
    PreparedContainer,
    refusal_text,
)
from tessera_agent.containers.holdings import ContainerStage
from tessera_agent.delivery.injector import DeviceInjector, DevicesMissing
from tessera_agent.device_plugin.allocations import (
    NOT_KNOWN,
    Allocations,
    AllocationStep,
    RecordedAllocation,
)
from tessera_agent.device_plugin.answer import AllocationRenderer
from tessera_agent.device_plugin.device_ids import numa_nodes_of
from tessera_agent.device_plugin.pod_finder import FoundContainer, NoContainerFound, PodFinder
from tessera_agent.device_plugin.pod_match import RequestingContainer
from tessera_agent.events import ContainerAlert, EventPublisher
from tessera_core.node.container_admission import (
    AdmissionDecision,
    Granted,
    NoDevices,
    RefusalReason,
    Refused,
)
from tessera_kubelet.device_plugin.types import AllocateRefused, ContainerAllocation
from tessera_kubelet.nri.types import PodSandbox
from tessera_runtime import logs

_log: Final = logs.named("tessera.agent.allocating")
_NAMED: Final = 4


class Allocator:
    """Answers Allocate and GetPreferredAllocation; see
    `tessera_kubelet.device_plugin.types.DevicePlugin`."""

    def __init__(
        self, finder: PodFinder, admitter: ContainerAdmitter, preparer: ContainerPreparer,
        allocations: Allocations, renderer: AllocationRenderer, publisher: EventPublisher, *,
        injector: DeviceInjector, wait_s: float,
    ) -> None:  # fmt: skip
        """`wait_s`: seconds for which kubelet waits while no single container matches."""
        self._finder = finder
        self._admitter = admitter
        self._preparer = preparer
        self._allocations = allocations
        self._renderer = renderer
        self._publisher = publisher
        self._injector = injector
        self._wait_s = wait_s
        self._turn = asyncio.Lock()

    def preferred(
        self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """Ids that no container had recently, as far as there are any: none then stands for two."""
        taken, must = self._allocations.taken(resource), frozenset(must_include)
        others = [id_ for id_ in available if id_ not in must]
        others.sort(key=lambda id_: (id_ in taken, len(id_), id_))
        return [*must_include, *others][:size]

    # -- what a container gets

    async def allocate(
        self, resource: str, ids: Sequence[str]
    ) -> ContainerAllocation | AllocateRefused:
        """What the container gets for which kubelet chose these ids."""
        if not self._allocations.known.is_set():
            return AllocateRefused(NOT_KNOWN)
        async with self._turn:  # what one was given the next one is not
            until = asyncio.get_running_loop().time() + self._wait_s
            decisions: dict[str, AdmissionDecision] = {}
            found = await self._finder.find(
                resource, len(ids), until, lambda found: self._is_final(found, decisions)
            )
            if isinstance(found, FoundContainer):
                return await self._answer(found, decisions[found.pod.uid], resource, ids)
            if len(found.candidates) == 1:
                one = found.candidates[0]
                return self._unconfirmed(one, decisions.get(one.pod.uid))
            return self._not_found(found, resource, len(ids))

    def _is_final(self, found: FoundContainer, decisions: dict[str, AdmissionDecision]) -> bool:
        """Whether the decision will not change with time."""
        decision = self._admitter.admit_with_room(found.pod, found.container.name)
        decisions[found.pod.uid] = decision
        return not isinstance(decision, Refused) or decision.why.needs_alert

    def _unconfirmed(
        self, one: RequestingContainer, decision: AdmissionDecision | None
    ) -> AllocateRefused:
        if isinstance(decision, Refused):
            return self._refuse(_sandbox(one), one.container.name, decision)
        message = (
            f"{one.name}: the API server shows it otherwise than it was seen here: delete the pod, "
            "so that it is scheduled again"
        )
        self._publisher.unclaimed(message)
        return AllocateRefused(message)

    def _not_found(self, found: NoContainerFound, resource: str, count: int) -> AllocateRefused:
        if not found.candidates:
            message = (
                f"no pod that is bound to this node asks for {count} of {resource} and was not "
                "given it: delete the pod, so that it is scheduled again"
            )
            self._publisher.unclaimed(message)
            return AllocateRefused(message)
        names = ", ".join(one.name for one in found.candidates[:_NAMED])
        message = (
            f"{len(found.candidates)} pods ask for {count} of {resource} at once, and kubelet does "
            f"not say for which it asks: {names}: delete all of them but one"
        )
        for one in found.candidates:
            self._publisher.alert(
                _sandbox(one), one.container.name, ContainerAlert.AMBIGUOUS, message
            )
        return AllocateRefused(message)

    async def _answer(
        self, found: FoundContainer, decision: AdmissionDecision, resource: str, ids: Sequence[str]
    ) -> ContainerAllocation | AllocateRefused:
        pod, name = found.pod, found.container.name
        with self._preparer.span("tessera.agent.allocate", pod, name) as span:
            answer = await self._decided(found, decision, resource, ids)
            if isinstance(answer, AllocateRefused):
                span.failed(answer.why)
            elif isinstance(decision, Granted):
                span.set(cards=",".join(share.card for share in decision.shares))
            return answer

    async def _decided(
        self, found: FoundContainer, decision: AdmissionDecision, resource: str, ids: Sequence[str]
    ) -> ContainerAllocation | AllocateRefused:
        pod, name = found.pod, found.container.name
        match decision:
            case Refused() as refused:
                return self._refuse(pod, name, refused)
            case Granted() as granted:
                return await self._with_cards(found, granted, _entry(found, resource, ids))
            case NoDevices(env=env):
                if not self._admitter.has_grant(pod):
                    return AllocateRefused(
                        f"pod {pod.namespace}/{pod.name}, container {name}, asks for {resource} "
                        "and has no grant: leave the choice of its node to our scheduler"
                    )
                await self._record(_entry(found, resource, ids, AllocationStep.ALLOCATED))
                return self._renderer.render_without_cards(env)

    async def _with_cards(
        self, found: FoundContainer, granted: Granted, entry: RecordedAllocation
    ) -> ContainerAllocation | AllocateRefused:
        try:
            devices = self._injector.inject(granted.injection, granted.cards)
            await self._allocations.put(entry)
        except DevicesMissing as e:
            return AllocateRefused(
                refusal_text(self._preparer.refuse_devices(found.pod, found.container, e))
            )
        except OSError as e:
            refused = Refused(why=RefusalReason.NOT_PREPARED, message=_unwritten(e))
            return self._refuse(found.pod, entry.container, refused)
        granted = replace(granted, injection=devices.injection)
        prepared = self._preparer.prepare(found.pod, found.container, granted)
        if isinstance(prepared, Refused):
            await self._allocations.forget([entry])
            return AllocateRefused(refusal_text(prepared))
        answer = self._renderer.render(devices, prepared.env, prepared.mounts)
        self._preparer.commit(prepared, ContainerStage.ALLOCATED)
        self._compare_numa(prepared, entry)
        await self._record(replace(entry, step=AllocationStep.ALLOCATED))
        return answer

    def _compare_numa(self, prepared: PreparedContainer, entry: RecordedAllocation) -> None:
        """Report cards that are elsewhere than kubelet aligned the container with."""
        chosen = numa_nodes_of(entry.ids)
        cards = {card.numa for card in prepared.granted.cards}
        if chosen and not cards <= chosen:
            self._publisher.alert(
                prepared.pod, entry.container, ContainerAlert.NOT_ALIGNED,
                f"its cards are on NUMA node {_listed(cards)}, and kubelet aligned it with "
                f"{_listed(chosen)}: it chooses by what is free, and runs all the same",
            )  # fmt: skip

    async def _record(self, entry: RecordedAllocation) -> None:
        """The entry is known whether it is written or not; a start is not allowed before it is."""
        try:
            await self._allocations.put(entry)
        except OSError as e:
            _log.warning("allocation not written", pod=entry.pod, uid=entry.uid, why=str(e))

    def _refuse(self, pod: PodSandbox, container: str, refused: Refused) -> AllocateRefused:
        return AllocateRefused(refusal_text(self._preparer.refuse(pod, container, refused)))


def _entry(
    found: FoundContainer,
    resource: str,
    ids: Sequence[str],
    step: AllocationStep = AllocationStep.PREPARING,
) -> RecordedAllocation:
    return RecordedAllocation(
        resource=resource,
        ids=tuple(sorted(ids)),
        step=step,
        uid=found.pod.uid,
        namespace=found.pod.namespace,
        pod=found.pod.name,
        container=found.container.name,
        notes=found.notes,
        env=found.env,
    )


def _sandbox(one: RequestingContainer) -> PodSandbox:
    pod = one.pod
    return PodSandbox(id=pod.uid, name=pod.name, uid=pod.uid, namespace=pod.namespace)


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))


def _unwritten(error: OSError) -> str:
    return f"what it is given cannot be written down: {error}: see the agent's folder on the node"
