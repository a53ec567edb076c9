"""Compares the books with a fresh list of all pods, and with their own columns, for ever.

Books that are told every change need no audit, so what it finds is a bug, here or elsewhere: it is
counted, logged, and each pod in question is read once more, which puts the books right. What
changed while the list was made is no difference, nor is what is about to be told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from tessera_core.fleet.charges import Charge
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.lists import pages
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.cache.outlived import OCCUPIED
from tessera_scheduler.cache.pod_reader import PodReader, PodSummary
from tessera_scheduler.cache.pods import PodEvents
from tessera_scheduler.cache.watches import LIVING
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.grants import Grant

TOLD: Final = 20
"""Pods named in the log, of those that differ."""
LATE_S: Final = 5.0
"""Seconds for which news of a pod may be on their way."""
AT_ONCE: Final = 200
"""Nodes compared before others on the loop get their turn."""

_log = logs.named("tessera.scheduler.audit")


class Differences(Struct, frozen=True):
    """Pods on which the books and the API server differ."""

    books_only: tuple[Grant, ...]
    api_only: tuple[Grant, ...]

    @property
    def cards(self) -> int:
        """How many cards that concerns."""
        both = (*self.books_only, *self.api_only)
        return len({(grant.node, share.card) for grant in both for share in grant.shares})


class Audit:
    """Compares."""

    def __init__(
        self,
        kube: Kube,
        ledger: Ledger,
        reader: PodReader,
        then: PodEvents,
        measures: SchedulerMetrics,
        clock: Clock,
        steady: MonotonicClock,
        *,
        page: int,
    ) -> None:
        """`page` pods are asked for at once."""
        self._kube = kube
        self._ledger = ledger
        self._reader = reader
        self._then = then
        self._measures = measures
        self._clock = clock
        self._steady = steady
        self._page = page

    async def run(self, every_s: float) -> NoReturn:
        """Compare again and again."""
        while True:
            await asyncio.sleep(every_s)
            try:
                found = await self._lasting(await self.with_api())
            except TesseraError as e:
                _log.warning("not audited", why=str(e))
                continue
            self._measures.differing.labels("api").set(found.cards)
            self._measures.differing.labels("columns").set(await self.with_columns())
            self._measures.audited.set(self._clock.time())
            self._mend(found)

    async def _lasting(self, found: Differences) -> Differences:
        """What still differs when news that were on their way have come: a pod may be gone from the
        list, and its end not yet told."""
        if not found.cards:
            return found
        await asyncio.sleep(LATE_S)
        return Differences(
            tuple(grant for grant in found.books_only if self._ledger.entry(grant.uid)),
            tuple(grant for grant in found.api_only if self._unknown(grant.uid)),
        )

    async def with_api(self) -> Differences:
        """The books against a list. Raises as `Kube.call` does."""
        started = self._steady.time()
        listed: dict[str, Grant] = {}
        async for page in pages(self._kube, paths.PODS, limit=self._page, query=LIVING):
            for sight in self._sights(page.items or []):
                if sight.grant is not None:
                    listed[sight.uid] = sight.grant
            await asyncio.sleep(0)
        books_only, api_only = [], []
        for entry in self._ledger.entries():
            uid = entry.grant.uid
            known = entry.phase is AllocationPhase.BOUND and entry.since < started
            if known and uid not in listed and not uid.startswith(OCCUPIED):
                books_only.append(entry.grant)
        for uid, grant in listed.items():
            if self._unknown(uid):
                api_only.append(grant)
        return Differences(tuple(books_only), tuple(api_only))

    def _unknown(self, uid: str) -> bool:
        return self._ledger.entry(uid) is None and not self._ledger.has_ended(uid)

    async def with_columns(self) -> int:
        """Cards whose columns in the fleet are not the sum of what the ledger holds on them."""
        wrong = 0
        for count, node in enumerate(list(self._ledger.fleet.rows)):
            wrong += self._wrong_columns(node)
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)
        return wrong

    def _wrong_columns(self, node: str) -> int:
        fleet = self._ledger.fleet
        row = fleet.rows.get(node)
        if row is None:
            return 0
        sums = [Charge() for _ in fleet.facts[row]]
        for card, charge in self._ledger.held(node).items():
            place = fleet.locate(node, card)
            if place is not None:
                sums[place[1]] = sums[place[1]].plus(charge)
        c = fleet.cards
        return sum(
            (c.memory_used[row, i], c.cores_used[row, i], c.sharers[row, i])
            != (held.memory_bytes, held.cores_milli, held.slots)
            for i, held in enumerate(sums)
        )

    def _sights(self, items: list[msgspec.Raw]) -> Iterator[PodSummary]:
        for raw in items:
            try:
                yield self._reader.read(raw)
            except msgspec.DecodeError:
                self._measures.undecodable.labels("audit").inc()

    def _mend(self, found: Differences) -> None:
        both = (*found.books_only, *found.api_only)
        if both:
            _log.alert(
                "books differ", books_only=len(found.books_only), api_only=len(found.api_only),
                pods=[f"{g.namespace}/{g.name}" for g in both[:TOLD]],
            )  # fmt: skip
        for grant in both:
            self._then.doubt(PodKey(grant.namespace, grant.name, grant.uid))
