"""Reads a pod where only a quorum read can tell, and puts what it shows into the books."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import Phase
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_runtime.monotonic_clock import Steady
from tessera_scheduler.cache.pod_reader import Reader
from tessera_scheduler.cache.pods import Books
from tessera_schema.kube import Pod


class State(StrEnum):
    """What is known of a pod after it was read."""

    GONE = "gone"
    """It has ended, or another pod has its name."""
    OURS = "bound by us"
    OTHERS = "bound by somebody else"
    ENDING = "being deleted, and not bound"
    """No Binding is taken any more."""
    OPEN = "not bound"


class Found(Struct, frozen=True):
    """A pod as it was read."""

    state: State
    pod: Pod | None = None

    @property
    def version(self) -> str:
        """Its resourceVersion."""
        return self.pod.metadata.resource_version if self.pod else ""


class Looking:
    """Reads pods for the books."""

    def __init__(
        self, kube: Kube, ledger: Ledger, books: Books, reader: Reader, steady: Steady,
        holds: Callable[[], bool],
    ) -> None:  # fmt: skip
        """`holds` tells whether nobody else may write now."""
        self._kube = kube
        self._ledger = ledger
        self._books = books
        self._reader = reader
        self._steady = steady
        self._holds = holds

    async def look(self, name: PodKey) -> Found:
        """What has become of the pod; the books know it then. Raises ApiRefused and Passing."""
        pod = await read_back(self._kube, name)
        if pod is None or pod.terminal:
            self._books.deleted(name.uid)
            return Found(State.GONE)
        self._restate(name, pod)
        return Found(self._state(name, pod), pod)

    def _restate(self, name: PodKey, pod: Pod) -> None:
        entry = self._ledger.entry(name.uid)
        waits = entry is not None and entry.phase in (Phase.BINDING, Phase.UNSETTLED)
        sight = self._reader.sight(pod)
        if entry is not None and waits and sight.node == entry.grant.node and sight.grant is None:
            # Bound where we sent it; that our grant is not on it is somebody else's doing. Who
            # holds the Lease restores it; anybody else's cards may be another pod's by now.
            self._ledger.settle(name.uid, bound=self._holds())
        self._books.changed(sight, self._steady.time())

    def _state(self, name: PodKey, pod: Pod) -> State:
        entry = self._ledger.entry(name.uid)
        if not pod.spec.node_name:
            return State.ENDING if pod.metadata.deletion_timestamp else State.OPEN
        if entry is None or entry.phase is not Phase.BOUND:
            return State.OTHERS
        return State.OURS if entry.grant.node == pod.spec.node_name else State.OTHERS
