"""What a container gets for which kubelet chose some ids, where a device plugin gives the cards.

The same judge, files and holdings as where the runtime asks; two things differ. Kubelet does not
say for whom it asks, so the pod is found by how much it asks for, and never guessed. And a pod that
is refused here has failed for good, while a start that is refused is tried again; so whether there
is room beside what runs is judged at the start (`starting`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.admission.admission import Cards, ContainerAdmitter
from tessera_agent.admission.prepare import ContainerPreparer, NotPrepared
from tessera_agent.containers.holdings import ContainerStage
from tessera_agent.device_plugin.allocations import (
    NOT_KNOWN,
    Allocations,
    AllocationStep,
    RecordedAllocation,
)
from tessera_agent.device_plugin.pod_finder import FoundContainer, NoContainerFound, PodFinder
from tessera_agent.device_plugin.pod_match import RequestingContainer
from tessera_agent.events import ContainerAlert, EventPublisher
from tessera_agent.readers.device_handover import (
    DeviceHandover,
    HandedOverDevices,
    NoDeviceNode,
    hand_over,
)
from tessera_agent.settings import PluginSettings
from tessera_core.dialect_kit.contract import Vendor
from tessera_core.node.container_admission import (
    AdmissionDecision,
    Granted,
    NoDevices,
    RefusalReason,
    Refused,
)
from tessera_kubelet.device_plugin.types import AllocateRefused, ContainerAllocation, DeviceNode
from tessera_kubelet.nri.types import PodSandbox
from tessera_runtime import logs
from tessera_runtime.tracing import tracing
from tessera_schema.injections import Mount

_log: Final = logs.named("tessera.agent.allocating")
_SHOWN: Final = 4


class AllocatorDependencies(Struct, frozen=True, kw_only=True):
    """What the plugin works with."""

    settings: PluginSettings
    vendor: Vendor
    handing: DeviceHandover
    finder: PodFinder
    judge: ContainerAdmitter
    preparing: ContainerPreparer
    allocations: Allocations
    cards: Cards
    teller: EventPublisher
    now: Callable[[], float]
    """The loop's clock."""


class Allocator:
    """A device plugin; see `tessera_kubelet.device_plugin.types.DevicePlugin`."""

    def __init__(self, tools: AllocatorDependencies) -> None:
        """Nothing was asked."""
        self._do = tools
        self._turn = asyncio.Lock()

    def preferred(
        self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """Ids that nobody had lately, as far as there are any: none then stands for two."""
        taken, must = self._do.allocations.taken(resource), frozenset(must_include)
        others = [id_ for id_ in available if id_ not in must]
        others.sort(key=lambda id_: (id_ in taken, len(id_), id_))
        return [*must_include, *others][:size]

    # -- what a container gets

    async def allocate(
        self, resource: str, ids: Sequence[str]
    ) -> ContainerAllocation | AllocateRefused:
        """What the container gets for which kubelet chose these ids."""
        if not self._do.allocations.known.is_set():
            return AllocateRefused(NOT_KNOWN)
        async with self._turn:  # what one was given the next one is not
            until = self._do.now() + self._do.settings.wait_s
            judged: dict[str, AdmissionDecision] = {}
            found = await self._do.finder.find(
                resource, len(ids), until, lambda found: self._is_good(found, judged)
            )
            if isinstance(found, FoundContainer):
                return await self._answer(found, judged[found.pod.uid], resource, ids)
            if len(found.candidates) == 1:
                one = found.candidates[0]
                return self._unfit(one, judged.get(one.pod.uid))
            return self._not_found(found, resource, len(ids))

    def _is_good(self, found: FoundContainer, judged: dict[str, AdmissionDecision]) -> bool:
        """Whether there is a verdict that time will not change."""
        verdict = self._do.judge.admit(found.pod, found.container.name, beside=False)
        judged[found.pod.uid] = verdict
        return not isinstance(verdict, Refused) or verdict.why.needs_alert

    def _unfit(
        self, one: RequestingContainer, verdict: AdmissionDecision | None
    ) -> AllocateRefused:
        if isinstance(verdict, Refused):
            return self._refused(_sandbox(one), one.container.name, verdict.why, verdict.message)
        message = (
            f"{one.name}: the API server shows it otherwise than it was seen here: delete the pod, "
            "so that it is scheduled anew"
        )
        self._do.teller.unclaimed(message)
        return AllocateRefused(message)

    def _not_found(self, found: NoContainerFound, resource: str, count: int) -> AllocateRefused:
        if not found.candidates:
            message = (
                f"no pod that is bound to this node asks for {count} of {resource} and was not "
                "given it: delete the pod, so that it is scheduled anew"
            )
            self._do.teller.unclaimed(message)
            return AllocateRefused(message)
        names = ", ".join(one.name for one in found.candidates[:_SHOWN])
        message = (
            f"{len(found.candidates)} pods ask for {count} of {resource} at once, and kubelet does "
            f"not say for which it asks: {names}: delete all of them but one"
        )
        for one in found.candidates:
            self._do.teller.alert(
                _sandbox(one), one.container.name, ContainerAlert.AMBIGUOUS, message
            )
        return AllocateRefused(message)

    async def _answer(
        self, found: FoundContainer, verdict: AdmissionDecision, resource: str, ids: Sequence[str]
    ) -> ContainerAllocation | AllocateRefused:
        pod, name = found.pod, found.container.name
        with tracing.span(
            "tessera.agent.allocate",
            parent=self._do.judge.traceparent(pod),
            pod=f"{pod.namespace}/{pod.name}",
            container=name,
            vendor=self._do.vendor.name,
        ) as span:
            answer = await self._judged(found, verdict, resource, ids)
            if isinstance(answer, AllocateRefused):
                span.failed(answer.why)
            elif isinstance(verdict, Granted):
                span.set(cards=",".join(share.card for share in verdict.shares))
            return answer

    async def _judged(
        self, found: FoundContainer, verdict: AdmissionDecision, resource: str, ids: Sequence[str]
    ) -> ContainerAllocation | AllocateRefused:
        pod, name = found.pod, found.container.name
        match verdict:
            case Refused(why=why, message=message):
                return self._refused(pod, name, why, message)
            case Granted() as given:
                return await self._given(found, given, _entry(found, resource, ids))
            case NoDevices(env=env):
                if not self._do.judge.concerns(pod):
                    return AllocateRefused(
                        f"pod {pod.namespace}/{pod.name}, container {name}, asks for {resource} "
                        "and has no grant: leave the choice of its node to our scheduler"
                    )
                await self._write(_entry(found, resource, ids, AllocationStep.ALLOCATED))
                return ContainerAllocation(env={**self._harmless(), **env})

    async def _given(
        self, found: FoundContainer, given: Granted, entry: RecordedAllocation
    ) -> ContainerAllocation | AllocateRefused:
        do, pod = self._do, found.pod
        cards = do.cards() or {}
        mine = [cards[card] for card in dict.fromkeys(s.card for s in given.shares)]
        try:
            hand = await asyncio.to_thread(
                hand_over, do.handing, do.settings.cards, given.injection, mine
            )
            await do.allocations.put(entry)
        except NoDeviceNode as e:
            message = f"{e}: have the agent give cards by another way than device nodes"
            return self._refused(pod, entry.container, RefusalReason.CARD_UNKNOWN, message)
        except OSError as e:
            return self._refused(pod, entry.container, RefusalReason.NOT_PREPARED, _unwritten(e))
        given = replace(given, injection=hand.injection)

        def answer(env: Mapping[str, str], files: Sequence[Mount]) -> ContainerAllocation:
            return _allocation(hand, {**self._harmless(), **env}, files)

        answered = do.preparing.prepare(
            pod, found.container, given, answer, ContainerStage.ALLOCATED
        )
        if isinstance(answered, NotPrepared):
            await do.allocations.forget([entry])
            return AllocateRefused(f"{answered.why}: {answered.message}")
        await self._write(replace(entry, step=AllocationStep.ALLOCATED))
        return answered

    def _harmless(self) -> Mapping[str, str]:
        """Variables by which an image would get other devices, emptied: kubelet does not tell what
        the image sets, and what is answered stands in its place."""
        guarded = self._do.vendor.guarded_env.items()
        return {name: "" for name, harmless in guarded if "" in harmless and "*" not in name}

    async def _write(self, entry: RecordedAllocation) -> None:
        """It is known whether it is written or not; a start is not allowed before it is."""
        try:
            await self._do.allocations.put(entry)
        except OSError as e:
            _log.warning("allocation not written", pod=entry.pod, uid=entry.uid, why=str(e))

    def _refused(
        self, pod: PodSandbox, container: str, why: RefusalReason, message: str
    ) -> AllocateRefused:
        told = self._do.preparing.refused(pod, container, why, message)
        return AllocateRefused(f"{told.why}: {told.message}")


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


def _allocation(
    hand: HandedOverDevices, env: Mapping[str, str], files: Sequence[Mount]
) -> ContainerAllocation:
    return ContainerAllocation(
        env=env,
        mounts=(*hand.injection.mounts, *files),
        annotations=hand.injection.annotations,
        devices=tuple(DeviceNode(path=path, source=path) for path in hand.injection.devices),
        cdi_devices=hand.cdi,
    )


def _sandbox(one: RequestingContainer) -> PodSandbox:
    pod = one.pod
    return PodSandbox(id=pod.uid, name=pod.name, uid=pod.uid, namespace=pod.namespace)


def _unwritten(error: OSError) -> str:
    return f"what it is given cannot be written down: {error}: see the agent's folder on the node"
