"""Reads a pod where only a quorum read can show its state, and brings the ledger up to date."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_runtime.errors import ApiRefused, Transient
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.cache.pod_reader import PodReader
from tessera_scheduler.cache.pods import PodCache
from tessera_scheduler.leadership.leader import Leadership
from tessera_schema.kube import Pod


class PodReadState(StrEnum):
    """What is known of a pod after it was read."""

    GONE = "gone"
    """It has ended, or another pod has its name."""
    BOUND = "bound by us"
    BOUND_BY_ANOTHER = "bound by somebody else"
    ENDING = "being deleted, and not bound"
    """No Binding is taken any more."""
    OPEN = "not bound"


class PodReadResult(Struct, frozen=True):
    """A pod as it was read."""

    state: PodReadState
    pod: Pod | None = None

    @property
    def version(self) -> str:
        """The pod's resourceVersion; empty where there is none."""
        return self.pod.metadata.resource_version if self.pod else ""


class QuorumReader:
    """Reads single pods into the pod cache."""

    def __init__(
        self,
        *,
        kube: Kube,
        ledger: Ledger,
        pod_cache: PodCache,
        pod_reader: PodReader,
        leadership: Leadership,
        clock: MonotonicClock,
    ) -> None:
        """All are shared with the rest of the scheduler."""
        self._kube = kube
        self._ledger = ledger
        self._pod_cache = pod_cache
        self._pod_reader = pod_reader
        self._leadership = leadership
        self._clock = clock

    async def read(self, name: PodKey) -> PodReadResult:
        """What has become of the pod; the ledger is up to date then. Raises ApiRefused and
        Transient."""
        pod = await read_back(self._kube, name)
        if pod is None or pod.terminal:
            self._pod_cache.on_delete(name.uid)
            return PodReadResult(PodReadState.GONE)
        self._update(name, pod)
        return PodReadResult(self._state(name, pod), pod)

    def _update(self, name: PodKey, pod: Pod) -> None:
        entry = self._ledger.entry(name.uid)
        waits = entry is not None and entry.phase in (
            AllocationPhase.BINDING,
            AllocationPhase.UNSETTLED,
        )
        summary = self._pod_reader.summarize(pod)
        sent_there = entry is not None and waits and summary.node == entry.grant.node
        if sent_there and summary.grant is None:
            # Bound where it was sent, and another writer has removed the grant. The holder of the
            # Lease restores it; with any other replica the cards may be another pod's by now.
            self._ledger.resolve_binding(name.uid, bound=self._leadership.holds)
        self._pod_cache.on_update(summary, self._clock.time())

    async def try_read(self, name: PodKey) -> PodReadResult | None:
        """What has become of the pod; None where it cannot be read now."""
        try:
            return await self.read(name)
        except (Transient, ApiRefused):
            return None

    async def refresh(self, name: PodKey) -> bool:
        """Bring the ledger up to date about the pod; always True, as a task that is done. Raises
        ApiRefused and Transient."""
        await self.read(name)
        return True

    def _state(self, name: PodKey, pod: Pod) -> PodReadState:
        entry = self._ledger.entry(name.uid)
        if not pod.spec.node_name:
            return PodReadState.ENDING if pod.metadata.deletion_timestamp else PodReadState.OPEN
        if entry is None or entry.phase is not AllocationPhase.BOUND:
            return PodReadState.BOUND_BY_ANOTHER
        return (
            PodReadState.BOUND
            if entry.grant.node == pod.spec.node_name
            else PodReadState.BOUND_BY_ANOTHER
        )
