"""What became of a Binding, and what follows from it in the books.

`tessera_scheduler.binding.binder` tells why an unsettled Binding is settled the way it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct

from tessera_core.grants.result_annotations import written_labels
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.placement.placer import Placer
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.filter import Filter
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiConflict, ApiNotFound, ApiRefused
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.patches import label
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_runtime.tracing import tracing
from tessera_scheduler.binding.quorum_read import PodReadResult, PodReadState, QuorumReader
from tessera_scheduler.cache.pod_reader import PodReader
from tessera_scheduler.events import AllocationEvents
from tessera_scheduler.keys.signing_keys import SigningKeys
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_scheduler.retry_queue import RetryQueue
from tessera_scheduler.settings import BindSettings
from tessera_schema.grants import Grant

DONE: Final = ""


class BinderDependencies(Struct, frozen=True, kw_only=True):
    """What a binder works with."""

    kube: Kube
    registry: DialectRegistry
    ledger: Ledger
    placer: Placer
    filter: Filter
    reader: PodReader
    looking: QuorumReader
    errands: RetryQueue
    keys: SigningKeys
    news: AllocationEvents
    measures: SchedulerMetrics
    clock: Clock
    steady: MonotonicClock
    fence: Callable[[], float]
    """Seconds for which this replica surely leads; 0 when it does not."""
    term: Callable[[], str]
    """Under which a grant is written: `Leadership.term`."""
    freed: Callable[[], None]
    """To be told when cards become free in a way that Kubernetes does not show."""
    placed: Callable[[str], None]
    """To be told the uid of each pod that is bound, once."""


class BindingOutcomes:
    """Knows the Bindings whose outcome is not known. Answers are bind's: empty when bound."""

    def __init__(self, around: BinderDependencies, settings: BindSettings) -> None:
        """A lost Binding cannot be written any more after `late_s` seconds."""
        self._around = around
        self._ledger = around.ledger
        self._settings = settings
        self.busy: set[str] = set()
        """Pods of which a bind call is under way."""
        self._lost: dict[str, float] = {}
        """When the last Binding whose outcome is not known was given up."""
        self._bound = around.measures.binds.labels("bound")

    def bound(self, uid: str, grant: Grant) -> str:
        """The API server has written it."""
        self._ledger.resolve_binding(uid, bound=True)
        self._bound.inc()
        if self._ledger.entry(uid) is not None:  # else it was deleted meanwhile
            self._tell(uid, grant)
        return DONE

    def if_found(self, entry: LedgerEntry) -> None:
        """The watch may have shown an unsettled pod bound before anybody asked."""
        if entry.grant.uid in self._lost:
            self._count("found bound")
            self._tell(entry.grant.uid, entry.grant)

    def decided(self, name: PodKey, found: PodReadResult) -> str:
        """Reading the pod has told, or it is too late for the Binding to come."""
        entry = self._ledger.entry(name.uid)
        if found.state is PodReadState.OURS and entry is not None:
            self._count("found bound")
            self._tell(name.uid, entry.grant)
            return DONE
        self._count(found.state)
        if entry is not None and entry.phase in (
            AllocationPhase.BINDING,
            AllocationPhase.UNSETTLED,
        ):
            self._ledger.resolve_binding(name.uid, bound=False)
            self._around.freed()
        self._lost.pop(name.uid, None)
        return f"the pod is {found.state}"

    def refused(self, uid: str, why: str) -> str:
        """It was definitely not written."""
        self._count("refused")
        self._ledger.resolve_binding(uid, bound=False)
        self._around.freed()
        return why

    def lost(self, name: PodKey, why: str, *, anew: bool) -> str:
        """It may have been written, or be written yet; `anew` when one was sent just now."""
        self._count("unknown")
        if anew:
            self._lost.pop(name.uid, None)
        self.keep(name)
        return f"whether the pod is bound is not known: {why}: its cards are kept; ask again"

    def keep(self, name: PodKey) -> None:
        """Keep the cards of a Binding that nobody waits for until it is known what became of it."""
        entry = self._ledger.entry(name.uid)
        if entry is None or entry.phase not in (AllocationPhase.BINDING, AllocationPhase.UNSETTLED):
            return
        self._ledger.resolve_binding(name.uid, bound=None)
        self._lost.setdefault(name.uid, self._around.steady.time())
        self._around.errands.add("settle", name.uid, partial(self._settle, name))

    def drop(self, uid: str) -> None:
        """A reservation is of no use."""
        self._ledger.forget(uid)
        self._around.freed()

    def gone(self, uid: str) -> None:
        """The pod has ended."""
        self._lost.pop(uid, None)

    async def _settle(self, name: PodKey) -> bool:
        """Find out; True when it is known."""
        if name.uid in self.busy:
            return False
        asked = self._around.steady.time()
        try:
            found = await self._around.looking.read(name)
        except ApiRefused:
            return False  # that we may not read it just now decides nothing
        entry = self._ledger.entry(name.uid)
        if entry is not None and entry.phase is AllocationPhase.BOUND:
            self.if_found(entry)
        if entry is None or entry.phase is not AllocationPhase.UNSETTLED:
            return True
        too_late = asked - self._lost.get(name.uid, asked) >= self._settings.late_s
        if name.uid in self.busy or (found.state is PodReadState.OPEN and not too_late):
            return False
        self.decided(name, found)
        return True

    def _tell(self, uid: str, grant: Grant) -> None:
        if self._settings.labels:
            self._label(grant)
        self._around.placed(uid)
        self._around.filter.forget(uid)
        self._lost.pop(uid, None)
        self._around.news.granted(grant, tracing.current_traceparent())

    def _label(self, grant: Grant) -> None:
        """Write the dialects' labels, where the API server takes none from a Binding."""
        ask = self._around.filter.filtered_pod(grant.uid)
        labels = {} if ask is None else written_labels(self._around.registry, ask.pod, grant)
        if labels:
            errand = partial(self._labelled, grant, labels)
            self._around.errands.add("label", grant.uid, errand)

    async def _labelled(self, grant: Grant, labels: Mapping[str, str]) -> bool:
        with suppress(ApiConflict, ApiNotFound):  # it is gone
            path = paths.pod(grant.namespace, grant.name)
            await label(self._around.kube, path, labels, uid=grant.uid)
        return True

    def _count(self, outcome: str) -> None:
        self._around.measures.binds.labels(outcome).inc()
