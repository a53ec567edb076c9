"""What became of a Binding, and what follows from it in the ledger.

`tessera_scheduler.binding.binder` says why an unsettled Binding is settled the way it is.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_runtime.errors import ApiRefused
from tessera_runtime.kube.binding import PodKey
from tessera_scheduler.binding.quorum_read import PodReadResult, PodReadState, QuorumReader
from tessera_scheduler.binding.store import BindingStore
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_scheduler.retry_queue import RetryQueue
from tessera_schema.grants import Grant

DONE: Final = ""
UNSETTLED: Final = (AllocationPhase.BINDING, AllocationPhase.UNSETTLED)
"""Phases of a pod whose Binding may have been written."""


class BindingOutcomes:
    """Records outcomes, and finds out those that are not known. Answers are bind's: empty when
    bound."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        store: BindingStore,
        quorum_reader: QuorumReader,
        retry_queue: RetryQueue,
        pod_events: PodEvents,
        metrics: SchedulerMetrics,
    ) -> None:
        """All are shared with the rest of the scheduler, `store` with the binder."""
        self._ledger = ledger
        self._store = store
        self._quorum_reader = quorum_reader
        self._retry_queue = retry_queue
        self._pod_events = pod_events
        self._metrics = metrics
        self._bound = metrics.binds.labels("bound")
        self.seconds: Final = metrics.bind_seconds
        """Counts from each call of bind to its outcome."""

    def bound(self, uid: str, grant: Grant) -> str:
        """The API server has written the Binding."""
        self._ledger.resolve_binding(uid, bound=True)
        self._bound.inc()
        if self._ledger.entry(uid) is not None:  # else it was deleted meanwhile
            self._publish(grant)
        return DONE

    def found_bound(self, entry: LedgerEntry) -> None:
        """The ledger has the pod bound: the watch may have shown so before anybody asked."""
        if self._store.is_lost(entry.grant.uid):
            self._count("found bound")
            self._publish(entry.grant)

    def decided(self, name: PodKey, found: PodReadResult) -> str:
        """A read shows what became of the Binding, or it is too late for it to come."""
        entry = self._ledger.entry(name.uid)
        if found.state is PodReadState.BOUND and entry is not None:
            self._count("found bound")
            self._publish(entry.grant)
            return DONE
        self._count(found.state)
        if entry is not None and entry.phase in UNSETTLED:
            self._ledger.resolve_binding(name.uid, bound=False)
            self._pod_events.freed.publish()
        self._store.forget(name.uid)
        return f"the pod is {found.state}"

    def refused(self, uid: str, why: str) -> str:
        """The Binding was definitely not written."""
        self._count("refused")
        self._ledger.resolve_binding(uid, bound=False)
        self._pod_events.freed.publish()
        return why

    def lost(self, name: PodKey, why: str, *, again: bool) -> str:
        """The Binding may have been written, or be written yet; `again` when one was sent just
        now."""
        self._count("unknown")
        if again:
            self._store.forget(name.uid)
        self.settle_later(name)
        return f"whether the pod is bound is not known: {why}: its cards are kept; ask again"

    def settle_later(self, name: PodKey) -> None:
        """Keep the cards of a Binding that nobody waits for until it is known what became of it."""
        entry = self._ledger.entry(name.uid)
        if entry is None or entry.phase not in UNSETTLED:
            return
        self._ledger.resolve_binding(name.uid, bound=None)
        self._store.lose(name.uid)
        self._retry_queue.add("settle", name.uid, partial(self._settle, name))

    def drop(self, uid: str) -> None:
        """Give up a reservation that is of no use."""
        self._ledger.forget(uid)
        self._pod_events.freed.publish()

    async def _settle(self, name: PodKey) -> bool:
        """Find out what became of the Binding; True when it is known."""
        if self._store.is_under_way(name.uid):
            return False
        began = self._store.now()
        try:
            found = await self._quorum_reader.read(name)
        except ApiRefused:
            return False  # that the pod may not be read just now decides nothing
        entry = self._ledger.entry(name.uid)
        if entry is not None and entry.phase is AllocationPhase.BOUND:
            self.found_bound(entry)
        if entry is None or entry.phase is not AllocationPhase.UNSETTLED:
            return True
        too_late = self._store.is_too_late(name.uid, began)
        under_way = self._store.is_under_way(name.uid)
        if under_way or (found.state is PodReadState.OPEN and not too_late):
            return False
        self.decided(name, found)
        return True

    def _publish(self, grant: Grant) -> None:
        self._store.forget(grant.uid)
        self._pod_events.bound.publish(grant)

    def _count(self, outcome: str) -> None:
        self._metrics.binds.labels(outcome).inc()
