"""Answers the runtime's calls at once from memory: what each container of the node gets of this
vendor's cards.

Nothing here waits for the API server, the bus or the driver; the one thing that touches a disk is
making a container's two files, which must be there before the answer is. Whatever the runtime did
while there was no connection shows in `synchronize`, and is reported there; nothing that runs is
changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from tessera_agent.admission.device_check import DeviceCheck
from tessera_agent.admission.prepare import ContainerPreparer
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.events import ContainerAlert, EventPublisher
from tessera_agent.nri_plugin.creation import CreationHandler
from tessera_agent.nri_plugin.hidden_cards import HiddenCards
from tessera_agent.usage.hami_core import RunningRegions
from tessera_core.hook import limits_file
from tessera_kubelet.nri.types import (
    Adjustment,
    ContainerInfo,
    CreationRefused,
    NriContainerState,
    PodSandbox,
)
from tessera_runtime import logs
from tessera_schema.injections import Mount

_log: Final = logs.named("tessera.agent.nri")


class CardsPlugin:
    """A plugin of the container runtime; see `tessera_kubelet.nri.plugin.NriPlugin`."""

    def __init__(
        self, creation: CreationHandler, preparer: ContainerPreparer, holdings: ContainerRegistry,
        *, device_check: DeviceCheck, hidden: HiddenCards, regions: RunningRegions,
        publisher: EventPublisher,
    ) -> None:  # fmt: skip
        """`regions` gets the containers that HAMi-core limits, whatever granted them their
        cards."""
        self._creation = creation
        self._preparer = preparer
        self._holdings = holdings
        self._device_check = device_check
        self._hidden = hidden
        self._regions = regions
        self._publisher = publisher
        self._sandboxes: dict[str, str] = {}
        """Sandbox's id -> its pod's uid."""

    # -- what runs already

    def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[ContainerInfo]) -> None:
        """Take in what runs, and look for what was started without the agent."""
        sandboxes = {pod.id: pod for pod in pods}
        self._sandboxes = {pod.id: pod.uid for pod in pods}
        self._regions.clear()
        ended_first = sorted(containers, key=lambda c: c.state is not NriContainerState.STOPPED)
        ids = set()
        for container in ended_first:
            pod = sandboxes.get(container.sandbox_id)
            if pod is not None:
                ids.add(container.id)
                self._take_over(pod, container)
        for holding in self._holdings:
            if holding.id not in ids:
                self._forget(holding.key)
        for uid in self._holdings.pods() - set(self._sandboxes.values()):
            self._holdings.lose(uid)
        self._holdings.synchronized += 1
        _log.info("synchronized", containers=len(containers), holding=len(self._holdings))

    def _take_over(self, pod: PodSandbox, container: ContainerInfo) -> None:
        key = ContainerKey(uid=pod.uid, container=container.name)
        ended = container.state is NriContainerState.STOPPED
        stage = ContainerStage.ENDED if ended else ContainerStage.RUNNING
        if not ended:
            self._regions.started(pod, container)
        adjusted = any(_is_limits(mount, key) for mount in container.mounts)
        known = self._holdings.change(key, container.id, stage=stage, pid=container.pid)
        found = known or self._preparer.found(pod, container, stage, adjusted=adjusted)
        if found is not None:
            self._holdings.put(found if adjusted else self._unlimited(found))
            if known is None and found.holds and container.state is NriContainerState.RUNNING:
                self._preparer.found_running(found)
            if not ended:
                self._device_check.check(pod, container, found.granted or found.shares)
        elif not ended and self._hidden.are_visible_to(pod, container):
            self._publisher.alert(
                pod, container.name, ContainerAlert.UNGRANTED,
                "it was created while the agent was not asked, holds no share and sees cards: "
                "delete the pod",
            )  # fmt: skip

    def _unlimited(self, held: Holding) -> Holding:
        """The holding of a container that was created without the agent's answer, or whose answer
        came too late to count."""
        if held.hooked and held.holds:
            self._publisher.alert(
                held.pod,
                held.key.container,
                ContainerAlert.UNLIMITED,
                "it was created while the agent was not asked: its share is not limited; delete "
                "the pod",
            )
        return replace(held, files=None)

    # -- what the runtime does

    def create_container(
        self, pod: PodSandbox, container: ContainerInfo
    ) -> Adjustment | CreationRefused:
        """What the container gets; see `CreationHandler`."""
        self._sandboxes[pod.id] = pod.uid
        return self._creation.create_container(pod, container)

    def container_started(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """The container's process runs."""
        self._regions.started(pod, container)
        held = self._holdings.change(
            ContainerKey(uid=pod.uid, container=container.name),
            container.id,
            stage=ContainerStage.RUNNING,
            pid=container.pid,
        )
        if held is not None:
            self._preparer.started(held)

    def container_stopped(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """The process ended; what it held is free, its files stay for its next start."""
        self._regions.ended(container)
        key = ContainerKey(uid=pod.uid, container=container.name)
        self._holdings.change(key, container.id, stage=ContainerStage.ENDED, pid=0)

    def container_removed(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """The container is gone, unless it was started again under another id."""
        self._regions.ended(container)
        key = ContainerKey(uid=pod.uid, container=container.name)
        held = self._holdings.get(key)
        if held is not None and held.id == container.id:
            self._forget(key)

    def pod_stopped(self, pod: PodSandbox) -> None:
        """None of the pod's containers runs."""
        self._regions.pod_ended(pod)
        for held in self._of(pod):
            self._holdings.change(held.key, held.id, stage=ContainerStage.ENDED, pid=0)

    def pod_removed(self, pod: PodSandbox) -> None:
        """The sandbox is gone; the pod is too, unless it has another one."""
        for held in self._of(pod):
            self._forget(held.key)
        self._sandboxes.pop(pod.id, None)
        if pod.uid not in self._sandboxes.values():
            self._holdings.lose(pod.uid)

    def _forget(self, key: ContainerKey) -> None:
        self._holdings.forget(key, asyncio.get_running_loop().time())

    def _of(self, pod: PodSandbox) -> tuple[Holding, ...]:
        return tuple(h for h in self._holdings.of_pod(pod.uid) if h.pod.id == pod.id)


def _is_limits(mount: Mount, key: ContainerKey) -> bool:
    """Whether the mount is the agent's: a pod may mount something else at that place."""
    own = f"/{key.uid}/{key.container}/limits"
    return mount.destination == limits_file.PATH and mount.source.endswith(own)
