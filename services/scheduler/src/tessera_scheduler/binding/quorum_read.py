"""Reads a pod where only a quorum read can tell, and puts what it shows into the books."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.cache.pod_reader import PodReader
from tessera_scheduler.cache.pods import PodCache
from tessera_schema.kube import Pod


class PodReadState(StrEnum):
    """What is known of a pod after it was read."""

    GONE = "gone"
    """It has ended, or another pod has its name."""
    OURS = "bound by us"
    OTHERS = "bound by somebody else"
    ENDING = "being deleted, and not bound"
    """No Binding is taken any more."""
    OPEN = "not bound"


class PodReadResult(Struct, frozen=True):
    """A pod as it was read."""

    state: PodReadState
    pod: Pod | None = None

    @property
    def version(self) -> str:
        """Its resourceVersion."""
        return self.pod.metadata.resource_version if self.pod else ""


class QuorumReader:
    """Reads pods for the books."""

    def __init__(
        self,
        kube: Kube,
        ledger: Ledger,
        books: PodCache,
        reader: PodReader,
        steady: MonotonicClock,
        holds: Callable[[], bool],
    ) -> None:
        """`holds` tells whether nobody else may write now."""
        self._kube = kube
        self._ledger = ledger
        self._books = books
        self._reader = reader
        self._steady = steady
        self._holds = holds

    async def read(self, name: PodKey) -> PodReadResult:
        """What has become of the pod; the books know it then. Raises ApiRefused and Passing."""
        pod = await read_back(self._kube, name)
        if pod is None or pod.terminal:
            self._books.deleted(name.uid)
            return PodReadResult(PodReadState.GONE)
        self._restate(name, pod)
        return PodReadResult(self._state(name, pod), pod)

    def _restate(self, name: PodKey, pod: Pod) -> None:
        entry = self._ledger.entry(name.uid)
        waits = entry is not None and entry.phase in (
            AllocationPhase.BINDING,
            AllocationPhase.UNSETTLED,
        )
        sight = self._reader.sight(pod)
        if entry is not None and waits and sight.node == entry.grant.node and sight.grant is None:
            # Bound where we sent it; that our grant is not on it is somebody else's doing. Who
            # holds the Lease restores it; anybody else's cards may be another pod's by now.
            self._ledger.resolve_binding(name.uid, bound=self._holds())
        self._books.changed(sight, self._steady.time())

    def _state(self, name: PodKey, pod: Pod) -> PodReadState:
        entry = self._ledger.entry(name.uid)
        if not pod.spec.node_name:
            return PodReadState.ENDING if pod.metadata.deletion_timestamp else PodReadState.OPEN
        if entry is None or entry.phase is not AllocationPhase.BOUND:
            return PodReadState.OTHERS
        return PodReadState.OURS if entry.grant.node == pod.spec.node_name else PodReadState.OTHERS
