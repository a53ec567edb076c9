"""Compares the ledger with a fresh list of all pods, and with the fleet's columns, periodically.

A ledger that receives every change needs no audit, so what it finds is a bug, here or elsewhere: it
is counted, logged, and each pod in question is read once more, which corrects the ledger. What
changed while the list was made is no difference, nor is what an event is about to show.
"""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.fleet.charges import Charge
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.slices import Slices, for_each
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.lists import pages
from tessera_runtime.metrics import Counter
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_runtime.slice_runner import in_slices
from tessera_scheduler.cache.outlived import OCCUPIED
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.cache.pod_reader import PodReader
from tessera_scheduler.cache.watches import LIVING
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.grants import Grant

NAMED: Final = 20
"""Pods named in the log, of those that differ."""
LATE_S: Final = 5.0
"""Seconds for which an event of a pod may be on its way."""

_log = logs.named("tessera.scheduler.audit")


class Differences(Struct, frozen=True):
    """Pods on which the ledger and the API server differ."""

    ledger_only: tuple[Grant, ...]
    api_only: tuple[Grant, ...]

    @property
    def cards(self) -> int:
        """How many cards that concerns."""
        both = (*self.ledger_only, *self.api_only)
        return len({(grant.node, share.card) for grant in both for share in grant.shares})


class GrantLister:
    """Lists the grants of all live pods."""

    def __init__(
        self, kube: Kube, pod_reader: PodReader, undecodable: Counter, *, page: int
    ) -> None:
        """`page` pods are listed at once; `undecodable` counts those that cannot be read."""
        self._kube = kube
        self._pod_reader = pod_reader
        self._undecodable = undecodable.labels("audit")
        self._page = page

    async def grants(self) -> dict[str, Grant]:
        """Each pod's (uid) grant. Raises as `Kube.call` does."""
        listed: dict[str, Grant] = {}
        async for page in pages(self._kube, paths.PODS, limit=self._page, query=LIVING):
            await in_slices(for_each(page.items or (), lambda raw: listed.update(self._one(raw))))
        return listed

    def _one(self, raw: msgspec.Raw) -> dict[str, Grant]:
        try:
            summary = self._pod_reader.read(raw)
        except msgspec.DecodeError:
            self._undecodable.inc()
            return {}
        return {} if summary.grant is None else {summary.uid: summary.grant}


class Audit:
    """Compares, and has pods read again that differ."""

    def __init__(
        self,
        *,
        lister: GrantLister,
        ledger: Ledger,
        pod_events: PodEvents,
        metrics: SchedulerMetrics,
        clock: Clock,
        monotonic_clock: MonotonicClock,
    ) -> None:
        """`clock` says when the ledger was audited last; the ledger goes by `monotonic_clock`."""
        self._lister = lister
        self._ledger = ledger
        self._pod_events = pod_events
        self._metrics = metrics
        self._clock = clock
        self._monotonic_clock = monotonic_clock

    async def run(self, every_s: float) -> NoReturn:
        """Compare periodically, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            try:
                found = await self._confirmed(await self.with_api())
            except TesseraError as e:
                _log.warning("not audited", why=str(e))
                continue
            self._metrics.differing.labels("api").set(found.cards)
            self._metrics.differing.labels("columns").set(await self.with_columns())
            self._metrics.audited.set(self._clock.time())
            self._correct(found)

    async def _confirmed(self, found: Differences) -> Differences:
        """What still differs when events that were on their way have come: a pod may be gone from
        the list before an event shows its end."""
        if not found.cards:
            return found
        await asyncio.sleep(LATE_S)
        return Differences(
            tuple(grant for grant in found.ledger_only if self._ledger.entry(grant.uid)),
            tuple(grant for grant in found.api_only if self._unknown(grant.uid)),
        )

    async def with_api(self) -> Differences:
        """The ledger against a list. Raises as `Kube.call` does."""
        started = self._monotonic_clock.time()
        listed = await self._lister.grants()
        ledger_only: list[Grant] = []
        api_only: list[Grant] = []

        def compare(entry: LedgerEntry) -> None:
            uid = entry.grant.uid
            known = entry.phase is AllocationPhase.BOUND and entry.since < started
            if known and uid not in listed and not uid.startswith(OCCUPIED):
                ledger_only.append(entry.grant)

        def find(grant: Grant) -> None:
            if self._unknown(grant.uid):
                api_only.append(grant)

        await in_slices(for_each(list(self._ledger.entries()), compare))
        await in_slices(for_each(listed.values(), find))
        return Differences(tuple(ledger_only), tuple(api_only))

    def _unknown(self, uid: str) -> bool:
        return self._ledger.entry(uid) is None and not self._ledger.has_ended(uid)

    async def with_columns(self) -> int:
        """Cards whose columns in the fleet are not the sum of what the ledger holds on them."""
        return await in_slices(self._wrong_cards())

    def _wrong_cards(self) -> Slices[int]:
        wrong = 0
        for node in list(self._ledger.fleet.rows):
            wrong += self._wrong_columns(node)
            yield
        return wrong

    def _wrong_columns(self, node: str) -> int:
        fleet = self._ledger.fleet
        row = fleet.rows.get(node)
        if row is None:
            return 0
        sums = [Charge() for _ in fleet.facts[row]]
        for entry in self._ledger.on(node):
            for card, charge in entry.charges.items():
                place = fleet.locate(node, card)
                if place is not None:
                    cost = replace(charge, memory_bytes=fleet.memory_cost(place, charge))
                    sums[place[1]] = sums[place[1]].plus(cost)
        c = fleet.cards
        return sum(
            (
                c.memory_used[row, i],
                c.cores_used[row, i],
                c.sharers[row, i],
                c.lent_memory[row, i],
                c.lent_slots[row, i],
            )
            != (held.memory_bytes, held.cores_milli, held.slots, held.lent_bytes, held.lent_slots)
            for i, held in enumerate(sums)
        )

    def _correct(self, found: Differences) -> None:
        both = (*found.ledger_only, *found.api_only)
        if both:
            _log.alert(
                "books differ", books_only=len(found.ledger_only), api_only=len(found.api_only),
                pods=[f"{g.namespace}/{g.name}" for g in both[:NAMED]],
            )  # fmt: skip
        for grant in both:
            self._pod_events.doubted.publish(PodKey(grant.namespace, grant.name, grant.uid))
