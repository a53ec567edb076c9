"""What a container that holds shares gets besides its cards' names: its files and limits, and a
place among the holdings. Made in the same way whoever asks, the runtime or kubelet; found again by
an agent that starts when the container is there already.

The one thing that touches a disk is making the two files, which must be there before the answer is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from tessera_agent.admission.admission import ContainerAdmitter
from tessera_agent.containers.adjustment import (
    below,
    disarmed,
    in_force,
    limits_of,
    terms_in,
    withstands,
)
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey, HookFiles
from tessera_agent.containers.namespace_allowances import Reach
from tessera_agent.events import EventPublisher
from tessera_agent.settings import CardDelivery
from tessera_core.dialect_kit.contract import Dialect, Vendor
from tessera_core.dialect_kit.lending_terms import LendingTerms
from tessera_core.hook.limits_file import HookLimits
from tessera_core.node.container_admission import Granted, RefusalReason
from tessera_kubelet.nri.types import ContainerInfo, PodSandbox
from tessera_runtime import logs
from tessera_runtime.tracing import tracing
from tessera_schema.grants import Share
from tessera_schema.injections import Mount

_log: Final = logs.named("tessera.agent.preparing")
T = TypeVar("T")
STANDS: Final = {
    CardDelivery.RUNTIME: "by its image and by the pod",
    CardDelivery.ALLOCATE: "by the pod",
}
"""Who must set a variable so that its value stands, whatever is answered; for messages."""


class PreparerDependencies(Struct, frozen=True, kw_only=True):
    """What containers are prepared with."""

    vendor: Vendor
    judge: ContainerAdmitter
    dialects: Mapping[str, Dialect]
    holdings: ContainerRegistry
    files: HookFiles
    reach: Reach
    teller: EventPublisher
    now: Callable[[], float]
    """The loop's clock."""
    stands: str
    """One of `STANDS`."""


class NotPrepared(Struct, frozen=True, kw_only=True):
    """It must not be created; it was told."""

    why: RefusalReason
    message: str


class EarlierAdjustment(Struct, frozen=True, kw_only=True):
    """What a container was given, known by other means than its files."""

    limits: Callable[[Sequence[Share], LendingTerms, Collection[str]], HookLimits]
    """Of these shares and terms, and cards without a limit of cores."""
    terms: Callable[[Sequence[Share]], LendingTerms]
    since: float = float("-inf")
    """Loop time at which it was first heard of."""


class ContainerPreparer:
    """Prepares containers."""

    def __init__(self, tools: PreparerDependencies) -> None:
        """Nothing is made yet."""
        self._do = tools

    def prepare(
        self,
        pod: PodSandbox,
        container: ContainerInfo,
        given: Granted,
        answer: Callable[[Mapping[str, str], Sequence[Mount]], T],
        stage: ContainerStage = ContainerStage.CREATED,
    ) -> T | NotPrepared:
        """What `answer` makes of the container's variables and of the mounts of its files; it may
        raise OSError. From then on the container is held to be in this stage."""
        do, key = self._do, ContainerKey(uid=pod.uid, container=container.name)
        wanted = {**disarmed(do.vendor, container.env), **given.injection.env}
        if name := withstands(wanted, do.vendor, container):
            return self.set_twice(pod, container, name)
        env = {**container.env, **given.injection.env}
        terms = terms_in(do.dialects, pod.annotations, given.shares, env, given.injection)
        limits = limits_of(
            pod, container.name, given.shares, terms, self._unlimited(pod, terms, given.shares)
        )
        hooked = do.vendor.hooked
        try:
            resized = given.grant if given.grant.revision else None
            files = do.files.make(key, limits, resized) if hooked else None
            answered = answer(wanted, files.mounts if files else ())
        except (OSError, ValueError) as e:
            message = f"what limits it cannot be made: {e}: see the agent's folder on the node"
            return self.refused(pod, container.name, RefusalReason.NOT_PREPARED, message)
        do.holdings.put(
            Holding(
                key=key, id=container.id, pod=pod, shares=given.shares, limits=limits,
                hooked=hooked, files=files, since=do.now(), stage=stage,
                terms=terms,
            )
        )  # fmt: skip
        do.holdings.remember(given.grant)
        if stage is ContainerStage.CREATED:
            do.teller.prepared(pod, container.name, tracing.current_traceparent())
        return answered

    def _unlimited(
        self, pod: PodSandbox, terms: LendingTerms, shares: Sequence[Share]
    ) -> frozenset[str]:
        cards = [share.card for share in shares]
        return self._do.reach.unlimited(pod.namespace, terms, cards)

    def refused(
        self, pod: PodSandbox, container: str, why: RefusalReason, message: str
    ) -> NotPrepared:
        """Tell that a container is not created."""
        self._do.teller.refused(pod, container, why, message)
        return NotPrepared(why=why, message=message)

    def set_twice(self, pod: PodSandbox, container: ContainerInfo, name: str) -> NotPrepared:
        """The same because of a variable whose value cannot be replaced."""
        message = (
            f"variable {name} is set {self._do.stands}, so that its value "
            f"{container.env[name]!r} would stand whatever it may have: take it out of the pod's "
            "env and envFrom"
        )
        return self.refused(pod, container.name, RefusalReason.SET_TWICE, message)

    def mounts_cards(self, pod: PodSandbox, container: ContainerInfo, path: str) -> NotPrepared:
        """The same because of a mount that would show it cards."""
        message = (
            f"volumeMounts: mountPath {path}: the vendor's runtime takes its name for a card's and "
            "would show it to the container: take the mount out of the pod"
        )
        return self.refused(pod, container.name, RefusalReason.MOUNTED, message)

    def started(self, held: Holding) -> None:
        """Tell that a container's process runs."""
        do, pod = self._do, held.pod
        with tracing.span(
            "tessera.agent.start",
            parent=do.judge.traceparent(pod),
            pod=f"{pod.namespace}/{pod.name}",
            container=held.key.container,
            after_s=do.now() - held.since,
        ) as span:
            do.teller.running(pod, held.key.container, span.traceparent)

    # -- what is there already

    def found(
        self,
        pod: PodSandbox,
        container: ContainerInfo,
        stage: ContainerStage,
        was: EarlierAdjustment,
        *,
        adjusted: bool,
    ) -> Holding | None:
        """What a container holds that is there already, by its files and its pod's grant; None
        where it holds nothing. It was `adjusted` where it has our files."""
        do, key = self._do, ContainerKey(uid=pod.uid, container=container.name)
        kept = do.files.kept_grant(key) if adjusted else ""
        shares = granted = do.judge.found(pod, container.name, adjusted=adjusted, kept=kept)
        if not shares:
            return None
        terms = was.terms(shares)
        limits = was.limits(shares, terms, self._unlimited(pod, terms, shares))
        hooked = do.vendor.hooked
        files = self._adopted(key, limits) if adjusted and hooked else None
        lowered: frozenset[str] = frozenset()
        if files is not None:
            shares = in_force(shares, files.limits)
            lowered = below(granted, files.limits)
        return Holding(
            key=key,
            id=container.id,
            pod=pod,
            shares=shares,
            granted=granted,
            limits=limits,
            hooked=hooked,
            files=files,
            stage=stage,
            pid=container.pid,
            since=was.since,
            terms=terms,
            lowered=lowered,
        )

    def _adopted(self, key: ContainerKey, limits: HookLimits) -> ContainerFiles | None:
        """The files as they are, live changes included; made again where they cannot be read."""
        try:
            return self._do.files.adopt(key)
        except (OSError, ValueError) as e:
            _log.warning("limits made again", uid=key.uid, container=key.container, why=str(e))
        try:
            return self._do.files.make(key, limits)
        except (OSError, ValueError) as e:
            _log.warning("limits not made", uid=key.uid, container=key.container, why=str(e))
            return None
