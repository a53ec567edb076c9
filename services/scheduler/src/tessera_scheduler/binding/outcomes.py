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
from tessera_core.ledger.entries import Entry
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import Phase
from tessera_core.placement.placer import Placer
from tessera_core.registry.registry import Registry
from tessera_core.scheduling.filter import Filter
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiConflict, ApiNotFound, ApiRefused
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.patches import label
from tessera_runtime.monotonic_clock import Steady
from tessera_runtime.tracing import tracing
from tessera_scheduler.binding.quorum_read import Found, Looking, State
from tessera_scheduler.cache.pod_reader import Reader
from tessera_scheduler.events import News
from tessera_scheduler.keys.signing_keys import Keys
from tessera_scheduler.metrics import Measures
from tessera_scheduler.retry_queue import Errands
from tessera_scheduler.settings import BindSettings
from tessera_schema.grants import Grant

DONE: Final = ""


class Around(Struct, frozen=True, kw_only=True):
    """What a binder works with."""

    kube: Kube
    registry: Registry
    ledger: Ledger
    placer: Placer
    filter: Filter
    reader: Reader
    looking: Looking
    errands: Errands
    keys: Keys
    news: News
    measures: Measures
    clock: Clock
    steady: Steady
    fence: Callable[[], float]
    """Seconds for which this replica surely leads; 0 when it does not."""
    term: Callable[[], str]
    """Under which a grant is written: `Leading.term`."""
    freed: Callable[[], None]
    """To be told when cards become free in a way that Kubernetes does not show."""
    placed: Callable[[str], None]
    """To be told the uid of each pod that is bound, once."""


class Outcomes:
    """Knows the Bindings whose outcome is not known. Answers are bind's: empty when bound."""

    def __init__(self, around: Around, settings: BindSettings) -> None:
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
        self._ledger.settle(uid, bound=True)
        self._bound.inc()
        if self._ledger.entry(uid) is not None:  # else it was deleted meanwhile
            self._tell(uid, grant)
        return DONE

    def if_found(self, entry: Entry) -> None:
        """The watch may have shown an unsettled pod bound before anybody asked."""
        if entry.grant.uid in self._lost:
            self._count("found bound")
            self._tell(entry.grant.uid, entry.grant)

    def decided(self, name: PodKey, found: Found) -> str:
        """Reading the pod has told, or it is too late for the Binding to come."""
        entry = self._ledger.entry(name.uid)
        if found.state is State.OURS and entry is not None:
            self._count("found bound")
            self._tell(name.uid, entry.grant)
            return DONE
        self._count(found.state)
        if entry is not None and entry.phase in (Phase.BINDING, Phase.UNSETTLED):
            self._ledger.settle(name.uid, bound=False)
            self._around.freed()
        self._lost.pop(name.uid, None)
        return f"the pod is {found.state}"

    def refused(self, uid: str, why: str) -> str:
        """It was definitely not written."""
        self._count("refused")
        self._ledger.settle(uid, bound=False)
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
        if entry is None or entry.phase not in (Phase.BINDING, Phase.UNSETTLED):
            return
        self._ledger.settle(name.uid, bound=None)
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
            found = await self._around.looking.look(name)
        except ApiRefused:
            return False  # that we may not read it just now decides nothing
        entry = self._ledger.entry(name.uid)
        if entry is not None and entry.phase is Phase.BOUND:
            self.if_found(entry)
        if entry is None or entry.phase is not Phase.UNSETTLED:
            return True
        too_late = asked - self._lost.get(name.uid, asked) >= self._settings.late_s
        if name.uid in self.busy or (found.state is State.OPEN and not too_late):
            return False
        self.decided(name, found)
        return True

    def _tell(self, uid: str, grant: Grant) -> None:
        if self._settings.labels:
            self._label(grant)
        self._around.placed(uid)
        self._around.filter.done_with(uid)
        self._lost.pop(uid, None)
        self._around.news.granted(grant, tracing.current_traceparent())

    def _label(self, grant: Grant) -> None:
        """Write the dialects' labels, where the API server takes none from a Binding."""
        ask = self._around.filter.ask(grant.uid)
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
