"""What a container that holds shares gets besides its cards' names: its files and limits, and a
place among the holdings. Prepared in the same way for the runtime and for kubelet; found again by
an agent that starts when the container is there already.

    prepared = preparer.prepare(pod, container, granted)    its files are made; or Refused
    answer = ...                                            what the runtime or kubelet gets
    preparer.commit(prepared)                               from now on it holds its shares

The one thing that touches a disk is making the two files, which must be there before the answer is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.admission.admission import ContainerAdmitter
from tessera_agent.containers.adjustment import disarmed, irreplaceable_variable
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey, HookFiles
from tessera_agent.containers.limits import LimitsCalculator, cards_below_grant, in_force
from tessera_agent.delivery.injector import DevicesMissing
from tessera_agent.delivery.settings import CardDelivery
from tessera_agent.events import EventPublisher
from tessera_core.dialect_kit.contract import Vendor
from tessera_core.dialect_kit.lending_terms import LendingTerms
from tessera_core.hook.limits_file import HookLimits
from tessera_core.node.container_admission import Granted, RefusalReason, Refused
from tessera_kubelet.nri.types import ContainerInfo, PodSandbox
from tessera_runtime import logs
from tessera_runtime.tracing import tracing
from tessera_runtime.tracing.durations import timed_span
from tessera_runtime.tracing.span import Span
from tessera_schema.injections import Injection, Mount

_log: Final = logs.named("tessera.agent.preparing")
_SETTERS: Final = {
    CardDelivery.RUNTIME: "by its image and by the pod",
    CardDelivery.ALLOCATE: "by the pod",
}
"""Who must set a variable so that its value stays, whatever is answered; for messages."""


class PreparedContainer(Struct, frozen=True, kw_only=True):
    """A container whose files are made, and which holds nothing yet."""

    pod: PodSandbox
    container: ContainerInfo
    granted: Granted
    env: Mapping[str, str]
    """Variables to set; those by which its image would get other devices are emptied."""
    limits: HookLimits
    terms: LendingTerms
    files: ContainerFiles | None
    """None where the vendor's own tools limit it."""
    log_level: int = 0
    """`Holding.log_level`."""

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """The mounts of its files."""
        return self.files.mounts if self.files else ()


class ContainerPreparer:
    """Prepares containers for their shares, and reports those that are refused."""

    def __init__(
        self, vendor: Vendor, admitter: ContainerAdmitter, limits: LimitsCalculator,
        holdings: ContainerRegistry, files: HookFiles, publisher: EventPublisher,
        delivery: CardDelivery,
    ) -> None:  # fmt: skip
        self._vendor = vendor
        self._admitter = admitter
        self._limits = limits
        self._holdings = holdings
        self._files = files
        self._publisher = publisher
        self._setters = _SETTERS[delivery]

    def span(self, name: str, pod: PodSandbox, container: str) -> AbstractContextManager[Span]:
        """Around the answer about a container whose pod has a grant; its time is counted."""
        return timed_span(
            self._publisher.prepare_seconds, name, self._admitter.traceparent(pod),
            pod=f"{pod.namespace}/{pod.name}", container=container, vendor=self._vendor.name,
        )  # fmt: skip

    def prepare(
        self, pod: PodSandbox, container: ContainerInfo, granted: Granted
    ) -> PreparedContainer | Refused:
        """Make the container's files."""
        injection, shares = granted.injection, granted.shares
        env = {**disarmed(self._vendor, container.env), **injection.env}
        if name := irreplaceable_variable(env, self._vendor, container):
            return self.refuse_variable(pod, container, name)
        later_env = {**container.env, **injection.env}
        terms = self._limits.terms(pod, shares, later_env, injection)
        log_level = self._limits.own_log_level(shares, later_env, injection)
        limits = self._limits.limits(pod, container.name, shares, terms, log_level)
        key = ContainerKey(uid=pod.uid, container=container.name)
        try:
            resized = granted.grant if granted.grant.revision else None
            files = self._files.make(key, limits, resized) if self._vendor.hooked else None
        except (OSError, ValueError) as e:
            return self.refuse_unprepared(pod, container, e)
        return PreparedContainer(
            pod=pod, container=container, granted=granted, env=env, limits=limits, terms=terms,
            files=files, log_level=log_level,
        )  # fmt: skip

    def commit(
        self, prepared: PreparedContainer, stage: ContainerStage = ContainerStage.CREATED
    ) -> None:
        """Let the container hold its shares, in this stage."""
        pod, container, granted = prepared.pod, prepared.container, prepared.granted
        # The holding is written last: an answer that fails, for a device node that is not there,
        # must not leave one behind.
        self._holdings.put(
            Holding(
                key=ContainerKey(uid=pod.uid, container=container.name), id=container.id, pod=pod,
                shares=granted.shares, limits=prepared.limits, hooked=self._vendor.hooked,
                files=prepared.files, since=asyncio.get_running_loop().time(), stage=stage,
                terms=prepared.terms, log_level=prepared.log_level,
            )
        )  # fmt: skip
        self._holdings.remember(granted.grant)
        if stage is ContainerStage.CREATED:
            self._publisher.prepared(pod, container.name, tracing.current_traceparent())

    def started(self, held: Holding) -> None:
        """Report that a container's process runs."""
        pod = held.pod
        with tracing.span(
            "tessera.agent.start",
            parent=self._admitter.traceparent(pod),
            pod=f"{pod.namespace}/{pod.name}",
            container=held.key.container,
            after_s=asyncio.get_running_loop().time() - held.since,
        ) as span:
            self._publisher.running(pod, held.key.container, span.traceparent)

    def found_running(self, held: Holding) -> None:
        """Publish that a container runs which ran before this agent did: what the agent before
        published is lost if it was killed just then."""
        trace = self._admitter.traceparent(held.pod)
        self._publisher.running(held.pod, held.key.container, trace)

    # -- refusals

    def refuse(self, pod: PodSandbox, container: str, refused: Refused) -> Refused:
        """Report that a container is not created."""
        self._publisher.refused(pod, container, refused.why, refused.message)
        return refused

    def refuse_unprepared(
        self, pod: PodSandbox, container: ContainerInfo, error: Exception
    ) -> Refused:
        """Report the same because of what could not be made for it."""
        message = f"what limits it cannot be made: {error}: see the agent's folder on the node"
        refused = Refused(why=RefusalReason.NOT_PREPARED, message=message)
        return self.refuse(pod, container.name, refused)

    def refuse_devices(
        self, pod: PodSandbox, container: ContainerInfo, error: DevicesMissing
    ) -> Refused:
        """Report the same because of a device that it must have."""
        refused = Refused(why=RefusalReason.NOT_PREPARED, message=str(error))
        return self.refuse(pod, container.name, refused)

    def refuse_variable(self, pod: PodSandbox, container: ContainerInfo, name: str) -> Refused:
        """Report the same because of a variable whose value cannot be replaced."""
        message = (
            f"variable {name} is set {self._setters}, so that its value "
            f"{container.env[name]!r} would stand whatever it may have: take it out of the pod's "
            "env and envFrom"
        )
        refused = Refused(why=RefusalReason.SET_TWICE, message=message)
        return self.refuse(pod, container.name, refused)

    def refuse_mount(self, pod: PodSandbox, container: ContainerInfo, path: str) -> Refused:
        """Report the same because of a mount that would show it cards."""
        message = (
            f"volumeMounts: mountPath {path}: the vendor's runtime takes its name for a card's and "
            "would show it to the container: take the mount out of the pod"
        )
        refused = Refused(why=RefusalReason.MOUNTED, message=message)
        return self.refuse(pod, container.name, refused)

    # -- containers that are there already

    def found(
        self, pod: PodSandbox, container: ContainerInfo, stage: ContainerStage, *, adjusted: bool
    ) -> Holding | None:
        """What a container holds that is there already, by its files and its pod's grant; None
        where it holds nothing. It was `adjusted` where it has Tessera's files."""
        key = ContainerKey(uid=pod.uid, container=container.name)
        stored = self._files.stored_grant(key) if adjusted else ""
        granted = self._admitter.found(pod, container.name, adjusted=adjusted, stored=stored)
        if not granted:
            return None
        given = self._given(pod, container)
        terms = self._limits.terms(pod, granted, container.env, given)
        log_level = self._limits.own_log_level(granted, container.env, given)
        limits = self._limits.limits(pod, container.name, granted, terms, log_level)
        files = self._adopted(key, limits) if adjusted and self._vendor.hooked else None
        return Holding(
            key=key,
            id=container.id,
            pod=pod,
            shares=in_force(granted, files.limits) if files else granted,
            granted=granted,
            limits=limits,
            hooked=self._vendor.hooked,
            files=files,
            stage=stage,
            pid=container.pid,
            since=float("-inf"),
            terms=terms,
            log_level=log_level,
            lowered=cards_below_grant(granted, files.limits) if files else frozenset(),
        )

    def _given(self, pod: PodSandbox, container: ContainerInfo) -> Injection:
        """What the scheduler gave the container. Its annotations are as the runtime shows them,
        where it does: a device plugin's container has no id here."""
        grant = self._holdings.granted(pod.uid)
        given = grant.given.get(container.name, Injection()) if grant else Injection()
        return replace(given, annotations=container.annotations) if container.id else given

    def _adopted(self, key: ContainerKey, limits: HookLimits) -> ContainerFiles | None:
        """The files as they are, live changes included; made again where they cannot be read."""
        try:
            return self._files.adopt(key)
        except (OSError, ValueError) as e:
            _log.warning("limits made again", uid=key.uid, container=key.container, why=str(e))
        try:
            return self._files.make(key, limits)
        except (OSError, ValueError) as e:
            _log.warning("limits not made", uid=key.uid, container=key.container, why=str(e))
            return None


def refusal_text(refused: Refused) -> str:
    """The message for kubelet or the runtime."""
    return f"{refused.why}: {refused.message}"
