"""The runtime's questions, answered at once from memory: what each container of the node gets of
this vendor's cards.

Nothing here waits for the API server, the bus or the driver; the one thing that touches a disk is
making a container's two files, which must be there before the answer is. Whatever the runtime did
while there was no connection shows in `synchronize`, and is reported there; nothing that runs is
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.admission.admission import ContainerAdmitter
from tessera_agent.admission.device_check import DeviceCheck
from tessera_agent.admission.prepare import ContainerPreparer, EarlierAdjustment, NotPrepared
from tessera_agent.containers.adjustment import (
    adjustment_of,
    card_mount,
    disarmed,
    limits_of,
    sees_cards,
    terms_in,
    withstands,
)
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.events import ContainerAlert, EventPublisher
from tessera_agent.usage.hami_core import RunningRegions
from tessera_core.dialect_kit.contract import Dialect, Vendor
from tessera_core.hook import limits_file
from tessera_core.node.container_admission import Granted, NoDevices, Refused
from tessera_kubelet.nri.types import (
    Adjustment,
    ContainerInfo,
    CreationRefused,
    NriContainerState,
    PodSandbox,
)
from tessera_runtime import logs
from tessera_runtime.tracing import tracing
from tessera_schema.injections import Injection, Mount

_log: Final = logs.named("tessera.agent.nri")


class NriPluginDependencies(Struct, frozen=True, kw_only=True):
    """What the plugin works with."""

    vendor: Vendor
    judge: ContainerAdmitter
    dialects: Mapping[str, Dialect]
    holdings: ContainerRegistry
    preparing: ContainerPreparer
    disagreeing: DeviceCheck
    regioned: RunningRegions
    """Those that HAMi-core limits, whoever granted them what."""
    teller: EventPublisher
    now: Callable[[], float]
    """The loop's clock."""
    left_alone: Callable[[], bool]
    """Whether somebody else hands out these cards: then nobody is kept from seeing them."""
    exempt_namespaces: frozenset[str] = frozenset()


class CardsPlugin:
    """A plugin of the container runtime; see `tessera_kubelet.nri.plugin.NriPlugin`."""

    def __init__(self, tools: NriPluginDependencies) -> None:
        """Nothing runs, as far as is known."""
        self._do = tools
        self._sandboxes: dict[str, str] = {}
        self.synchronized = 0
        """Times that the runtime told all that it has."""
        self.hooks = tools.vendor.hooked
        """Whether containers get files here."""

    # -- what runs already

    def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[ContainerInfo]) -> None:
        """Know what runs, and look for what was started without being asked about."""
        sandboxes = {pod.id: pod for pod in pods}
        self._sandboxes = {pod.id: pod.uid for pod in pods}
        self._do.regioned.clear()
        ended_first = sorted(containers, key=lambda c: c.state is not NriContainerState.STOPPED)
        ids = set()
        for container in ended_first:
            pod = sandboxes.get(container.sandbox_id)
            if pod is not None:
                ids.add(container.id)
                self._find(pod, container)
        holdings = self._do.holdings
        for holding in holdings:
            if holding.id not in ids:
                holdings.forget(holding.key, self._do.now())
        for uid in holdings.pods() - set(self._sandboxes.values()):
            holdings.lose(uid)
        self.synchronized += 1
        _log.info("synchronized", containers=len(containers), holding=len(holdings))

    def _find(self, pod: PodSandbox, container: ContainerInfo) -> None:
        key = ContainerKey(uid=pod.uid, container=container.name)
        stage = (
            ContainerStage.ENDED
            if container.state is NriContainerState.STOPPED
            else ContainerStage.RUNNING
        )
        if stage is ContainerStage.RUNNING:
            self._do.regioned.started(pod, container)
        adjusted = any(_is_limits(mount, key) for mount in container.mounts)
        holdings = self._do.holdings
        found = holdings.change(key, container.id, stage=stage, pid=container.pid)
        if found is None:
            found = self._rebuilt(pod, container, stage, adjusted=adjusted)
        if found is not None:
            holdings.put(found if adjusted else self._unlimited(found))
            if stage is ContainerStage.RUNNING:
                self._do.disagreeing.check(pod, container, found.granted or found.shares)
        elif stage is ContainerStage.RUNNING and self._keeps_off(pod):
            self._look_for_cards(pod, container)

    def _unlimited(self, held: Holding) -> Holding:
        """It was created without an answer of ours, or our answer came too late to count."""
        if held.hooked and held.holds:
            self._do.teller.alert(
                held.pod,
                held.key.container,
                ContainerAlert.UNLIMITED,
                "it was created while the agent was not asked: its share is not limited; delete "
                "the pod",
            )
        return replace(held, files=None)

    def _look_for_cards(self, pod: PodSandbox, container: ContainerInfo) -> None:
        vendor = self._do.vendor
        if sees_cards(vendor, container.env) or card_mount(vendor, container):
            self._do.teller.alert(
                pod, container.name, ContainerAlert.UNGRANTED,
                "it was created while the agent was not asked, holds no share and sees cards: "
                "delete the pod",
            )  # fmt: skip

    def _rebuilt(
        self, pod: PodSandbox, container: ContainerInfo, stage: ContainerStage, *, adjusted: bool
    ) -> Holding | None:
        """What a container that runs holds, by its mounts, its files and its pod's grant."""
        was = EarlierAdjustment(
            limits=partial(limits_of, pod, container.name),
            terms=lambda shares: terms_in(
                self._do.dialects, pod.annotations, shares, container.env,
                self._given(pod, container),
            ),
        )  # fmt: skip
        return self._do.preparing.found(pod, container, stage, was, adjusted=adjusted)

    def _given(self, pod: PodSandbox, container: ContainerInfo) -> Injection:
        grant = self._do.holdings.granted(pod.uid)
        given = grant.given.get(container.name, Injection()) if grant else Injection()
        return replace(given, annotations=container.annotations)

    # -- what is created

    def create_container(
        self, pod: PodSandbox, container: ContainerInfo
    ) -> Adjustment | CreationRefused:
        """Its cards, limits and hook; or what keeps it from seeing cards; or a refusal, after which
        kubelet asks again."""
        self._sandboxes[pod.id] = pod.uid
        if self._keeps_off(pod) and (path := card_mount(self._do.vendor, container)):
            return _refusal(self._do.preparing.mounts_cards(pod, container, path))
        if not self._do.judge.concerns(pod):
            return self._kept_off(pod, container, self._do.vendor.deny)
        with tracing.span(
            "tessera.agent.prepare",
            parent=self._do.judge.traceparent(pod),
            pod=f"{pod.namespace}/{pod.name}",
            container=container.name,
            vendor=self._do.vendor.name,
        ) as span:
            match self._do.judge.admit(pod, container.name):
                case NoDevices(env=env):
                    return self._kept_off(pod, container, env)
                case Refused(why=why, message=message):
                    span.failed(message)
                    return _refusal(self._do.preparing.refused(pod, container.name, why, message))
                case Granted() as given:
                    span.set(cards=",".join(share.card for share in given.shares))
                    self._do.disagreeing.check(pod, container, given.shares)
                    answer = self._prepared(pod, container, given)
                    if isinstance(answer, CreationRefused):
                        span.failed(answer.why)
                    return answer

    def _prepared(
        self, pod: PodSandbox, container: ContainerInfo, given: Granted
    ) -> Adjustment | CreationRefused:
        def answer(env: Mapping[str, str], files: Sequence[Mount]) -> Adjustment:
            return adjustment_of(given.injection, env, files)

        return _refusal(self._do.preparing.prepare(pod, container, given, answer))

    def _kept_off(
        self, pod: PodSandbox, container: ContainerInfo, deny: Mapping[str, str]
    ) -> Adjustment | CreationRefused:
        if not self._keeps_off(pod):
            return Adjustment()
        env = {**disarmed(self._do.vendor, container.env), **deny}
        if name := withstands(env, self._do.vendor, container):
            return _refusal(self._do.preparing.set_twice(pod, container, name))
        return Adjustment(env=env)

    def _keeps_off(self, pod: PodSandbox) -> bool:
        """Whether containers of the pod that hold nothing must see nothing."""
        return pod.namespace not in self._do.exempt_namespaces and not self._do.left_alone()

    # -- what becomes of it

    def container_started(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """Its process runs."""
        self._do.regioned.started(pod, container)
        held = self._do.holdings.change(
            ContainerKey(uid=pod.uid, container=container.name),
            container.id,
            stage=ContainerStage.RUNNING,
            pid=container.pid,
        )
        if held is not None:
            self._do.preparing.started(held)

    def container_stopped(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """Its process ended; what it held is free, its files stay for its next start."""
        self._do.regioned.ended(container)
        key = ContainerKey(uid=pod.uid, container=container.name)
        self._do.holdings.change(key, container.id, stage=ContainerStage.ENDED, pid=0)

    def container_removed(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """It is gone, unless it was started again under another id."""
        self._do.regioned.ended(container)
        key = ContainerKey(uid=pod.uid, container=container.name)
        held = self._do.holdings.get(key)
        if held is not None and held.id == container.id:
            self._do.holdings.forget(key, self._do.now())

    def pod_stopped(self, pod: PodSandbox) -> None:
        """None of its containers runs."""
        self._do.regioned.pod_ended(pod)
        for held in self._of(pod):
            self._do.holdings.change(held.key, held.id, stage=ContainerStage.ENDED, pid=0)

    def pod_removed(self, pod: PodSandbox) -> None:
        """The sandbox is gone; the pod is too, unless it has another one."""
        for held in self._of(pod):
            self._do.holdings.forget(held.key, self._do.now())
        self._sandboxes.pop(pod.id, None)
        if pod.uid not in self._sandboxes.values():
            self._do.holdings.lose(pod.uid)

    def _of(self, pod: PodSandbox) -> tuple[Holding, ...]:
        return tuple(h for h in self._do.holdings.of_pod(pod.uid) if h.pod.id == pod.id)


def _refusal(answer: Adjustment | NotPrepared) -> Adjustment | CreationRefused:
    if isinstance(answer, NotPrepared):
        return CreationRefused(why=f"{answer.why}: {answer.message}")
    return answer


def _is_limits(mount: Mount, key: ContainerKey) -> bool:
    """Whether it is the one that we give: a pod may mount something else at that place."""
    ours = f"/{key.uid}/{key.container}/limits"
    return mount.destination == limits_file.PATH and mount.source.endswith(ours)
