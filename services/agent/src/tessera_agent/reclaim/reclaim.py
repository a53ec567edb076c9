"""Takes memory of the node's cards back from best-effort containers while an owner waits for it.

Where both are on a card, the limits files of owners say so; a hook whose driver refuses memory then
waits, and writes what it wants into its usage file. Ten times a second the agent reads that,
`tessera_core.node.memory_reclaim` decides, and best-effort containers are ended. The card is closed
for others of them for a while.

When the agent ends, no limits file says so any more. Owners on the node of an agent that was killed
wait 5 s in vain, once for each allocation.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from msgspec.structs import replace

from tessera_agent.containers.closed_cards import ClosedCards
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.events import ContainerAlert, ContainerEnd, EventPublisher
from tessera_agent.reclaim.container_processes import ContainerProcesses
from tessera_agent.reclaim.settings import ReclaimSettings
from tessera_agent.usage.usage_counters import OpenUsageFiles
from tessera_core.hook.limits_file import CardFlag, CardLimit
from tessera_core.hook.usage_counters import MemoryCounters, read_memory
from tessera_core.node.memory_reclaim import (
    BestEffortMemory,
    CardReclaimer,
    EndRequest,
    OwnerMemory,
    ReclaimRules,
)
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.metrics import CounterMetricFamily, GaugeMetricFamily, Metric, MetricsRegistry
from tessera_runtime.shared_wakeups import sleep_until_multiple
from tessera_schema.cards import MIB

_log: Final = logs.named("tessera.agent.reclaim")
_OFF_S: Final = 5.0
"""Seconds between looks where nothing is taken back: what another agent left is removed."""
_SELDOM: Final = 4
"""Reads of a usage file between two searches for the record of a card that was not used yet."""


class CardTenants(NamedTuple):
    """Who has memory of a card."""

    owners: list[Holding]
    best_effort: list[Holding]


class EndedContainer(NamedTuple):
    """A best-effort container that was ended, or could not be."""

    held: Holding
    card: str
    wanted_bytes: int
    failure: str
    """Empty = it was."""


class ReclaimLoop:
    """Takes memory back on all cards of the node."""

    def __init__(
        self, settings: ReclaimSettings, holdings: ContainerRegistry, closed: ClosedCards,
        processes: ContainerProcesses, publisher: EventPublisher, clock: Clock,
        metrics: MetricsRegistry,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._holdings = holdings
        self._closed = closed
        self._processes = processes
        self._publisher = publisher
        self._clock = clock
        self._now = asyncio.get_running_loop().time
        self._full = metrics.full
        self._rules = ReclaimRules(grace_s=settings.grace_s)
        self._reclaimers: dict[str, CardReclaimer] = {}
        self._usage_files = OpenUsageFiles(_SELDOM)
        self._working = threading.Lock()
        self._over = False
        self._counts: Counter[str] = Counter(
            dict.fromkeys(("waited", "failed", "ended", "not-ended"), 0)
        )
        metrics.collect(self._collect)

    async def run(self) -> NoReturn:
        """Take memory back, for ever; nobody waits for it when this ends."""
        try:
            while True:
                await self.tick()
                settings = self._settings
                await sleep_until_multiple(settings.tick_s if settings.enabled else _OFF_S)
        finally:
            with self._working:
                self._over = True
                self._flag(self._running(), {})
                self._usage_files.keep_only(())

    async def tick(self) -> None:
        """Look once, and end who has to."""
        running = self._running()
        cards = _shared_cards(running) if self._settings.enabled else {}
        if not cards and not any(map(_is_flagged, running)):
            return
        for ended in await asyncio.to_thread(self._tick, running, cards, self._now()):
            self._report(ended)

    def _running(self) -> list[Holding]:
        return [
            h for h in self._holdings if h.stage is ContainerStage.RUNNING and h.files is not None
        ]

    # -- in a thread

    def _tick(
        self, running: Sequence[Holding], cards: Mapping[str, CardTenants], now: float
    ) -> list[EndedContainer]:
        with self._working:
            if self._over:
                return []
            self._flag(running, cards)
            self._usage_files.keep_only({held.key for of in cards.values() for held in _all(of)})
            self._reclaimers = {
                card: self._reclaimers.get(card) or CardReclaimer(self._rules) for card in cards
            }
            return [e for card, of in cards.items() for e in self._reclaim(card, of, now)]

    def _flag(self, running: Iterable[Holding], cards: Mapping[str, CardTenants]) -> None:
        """Write into the owners' limits files on which cards memory can be taken back."""
        for held in running:
            for limit in held.files.limits.cards if held.files else ():
                flagged = _with_reclaim(limit, shared=limit.uuid in cards)
                if held.files is None or flagged == limit:
                    continue
                try:
                    held.files.change_card(
                        limit.uuid, lambda now: _with_reclaim(now, shared=now.uuid in cards)
                    )
                except (OSError, ValueError) as e:
                    _log.warning("limits not changed", container=held.limits.container, why=str(e))

    def _reclaim(self, card: str, of: CardTenants, now: float) -> Iterable[EndedContainer]:
        decision = self._reclaimers[card].decide(
            [self._owner(held, card) for held in of.owners],
            [self._best_effort(held, card) for held in of.best_effort],
            now, self._clock.time_ns(),
        )  # fmt: skip
        self._counts["waited"] += decision.began
        self._counts["failed"] += decision.failed
        if decision.short:
            self._closed.close(card, now + self._settings.closed_s)
        known = {held.id: held for held in of.best_effort}
        for end in decision.ends:
            failure = self._end(end)
            if failure:
                self._counts["not-ended"] += 1
            elif not end.by_force:
                self._counts["ended"] += 1
            yield EndedContainer(known[end.key], card, decision.wanted_bytes, failure)

    def _end(self, end: EndRequest) -> str:
        """Why the container could not be ended; empty = it was."""
        try:
            self._processes.end(end.key, by_force=end.by_force)
        except OSError as e:
            return str(e)
        return ""

    def _owner(self, held: Holding, card: str) -> OwnerMemory:
        memory = self._memory(held, card)
        return OwnerMemory(
            key=held.id, limit_bytes=_limit(held, card).memory_bytes,
            wanted_bytes=memory.wanted_bytes, wanted_at_ns=memory.wanted_at_ns,
            failed=memory.failed_for_others,
            alone=any(share.exclusive for share in held.shares if share.card == card),
        )  # fmt: skip

    def _best_effort(self, held: Holding, card: str) -> BestEffortMemory:
        charged = self._memory(held, card).charged_bytes
        return BestEffortMemory(key=held.id, since_s=held.since, charged_bytes=charged)

    def _memory(self, held: Holding, card: str) -> MemoryCounters:
        data = self._usage_files.record(held.key, held.files, card).data() if held.files else None
        return MemoryCounters() if data is None else read_memory(data)

    # -- what is seen of it

    def _report(self, ended: EndedContainer) -> None:
        held, container = ended.held, ended.held.key.container
        why = f"card {ended.card} was granted whole to a container"
        if ended.wanted_bytes:
            mib = ended.wanted_bytes // MIB
            why = f"containers wait for {mib} MiB of card {ended.card} that they were granted"
        if ended.failure:
            self._publisher.alert(
                held.pod, container, ContainerAlert.NOT_ENDED,
                f"{why}, and this one cannot be ended: {ended.failure}: "
                "give the agent the capability KILL",
            )  # fmt: skip
            return
        self._publisher.ended(
            held.pod, container, ContainerEnd.RECLAIMED,
            f"it is best-effort and was ended: {why}",
        )  # fmt: skip

    def _collect(self) -> Iterable[Metric]:
        counts = CounterMetricFamily(
            self._full("reclaims"), "Memory taken back for owners.", labels=("what",)
        )
        for what, count in self._counts.items():
            counts.add_metric((what,), count)
        closed = GaugeMetricFamily(
            self._full("card_closed_seconds"), "Until best-effort containers begin on it again.",
            labels=("card",),
        )  # fmt: skip
        for card, left in self._closed.left(self._now()).items():
            closed.add_metric((card,), left)
        yield from (counts, closed)


def _shared_cards(running: Iterable[Holding]) -> dict[str, CardTenants]:
    """The cards of which owners and best-effort containers have memory. A container without an id
    cannot be ended yet."""
    found: dict[str, CardTenants] = {}
    for held in running:
        for limit in held.files.limits.cards if held.files else ():
            of = found.setdefault(limit.uuid, CardTenants([], []))
            if not limit.is_rest:
                of.owners.append(held)
            elif held.id:
                of.best_effort.append(held)
    return {card: of for card, of in found.items() if of.owners and of.best_effort}


def _all(of: CardTenants) -> list[Holding]:
    return [*of.owners, *of.best_effort]


def _limit(held: Holding, card: str) -> CardLimit:
    limits = held.files.limits if held.files else held.limits
    return next(limit for limit in limits.cards if limit.uuid == card)


def _is_flagged(held: Holding) -> bool:
    limits = held.files.limits if held.files else held.limits
    return any(limit.flags & CardFlag.RECLAIM for limit in limits.cards)


def _with_reclaim(limit: CardLimit, *, shared: bool) -> CardLimit:
    if shared and not limit.is_rest:
        return replace(limit, flags=limit.flags | CardFlag.RECLAIM)
    return replace(limit, flags=limit.flags & ~CardFlag.RECLAIM)
