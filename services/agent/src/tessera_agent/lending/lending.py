"""Lends idle cores on the node's cards, ten times a second and without any network: the counters of
the hooks come in, `tessera_core.node.core_lending` decides, loans and holds go into limits files.

A thread does so for two seconds at a time: what a tick reads is less work than to wake the loop and
a thread for it. Who takes part, and on what terms, is read on the loop between two such turns, and
a container that comes or goes ends a turn.

Both end by themselves a second after they were last renewed, with the agent or without. Hooks older
than the agent may know no end of holds: the first tick of an agent that follows one that died
removes what it left. Only cards on which cores could be lent, or a container held, are examined,
and what was decided there stands for a while as long as nobody who was quiet stirs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Final, NoReturn

from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.lending.loans import (
    CurrentLoans,
    LoanWriter,
    WantedLoans,
    has_loan_or_hold,
    lent_permille,
    limits_of,
    waits,
)
from tessera_agent.lending.members import LendingMember, LendingMembers
from tessera_agent.lending.settings import LendingSettings
from tessera_agent.lending.steady_cards import SteadyCards
from tessera_agent.usage.usage_counters import OpenUsageFiles, UsageRecord
from tessera_core.hook.limits_file import Mode
from tessera_core.hook.usage_counters import UsageCounters
from tessera_core.node.core_lending import CounterSample, Lender, LendingDecision, LendingTimings
from tessera_runtime.clock import Clock
from tessera_runtime.metrics import CounterMetricFamily, GaugeMetricFamily, Metric, MetricsRegistry
from tessera_runtime.shared_wakeups import next_multiple, sleep_until_multiple

_CALM: Final = 3
"""Ticks that skip a card on which no container is lent to, held, or held back."""
_TURN_S: Final = 2.0
"""Seconds for which the thread ticks on the same terms, at most."""
_EMPTY_S: Final = 1.0
"""Seconds until it is checked again whether there is anything to lend."""
_OFF_S: Final = 5.0
"""Seconds between ticks where nothing is lent: what another agent left is removed."""
_REST_TICKS: Final = 2
"""Ticks in the time of one while a best-effort container has a loan: owners have their cores back
sooner."""
_SELDOM: Final = 4
"""Reads of counters between two searches for those of a card that was not used yet."""
_STANDS: Final = 0.5
"""Part of a loan's time for which a decision stands."""
_PERMILLE: Final = 10
_POD: Final = ("namespace", "pod", "container")


class _Turn:
    """Who is lent to and held for a while, and on what terms."""

    def __init__(
        self, members: Mapping[str, Sequence[LendingMember]], running: Sequence[Holding]
    ) -> None:
        self.members = members
        self.running = running
        self.on_card: dict[str, list[Holding]] = {}
        for held in running:
            for limit in limits_of(held).cards:
                self.on_card.setdefault(limit.uuid, []).append(held)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be decided, or removed."""
        return not self.members and not any(map(has_loan_or_hold, self.running))


class LendingLoop:
    """Lends on all cards of the node."""

    def __init__(
        self, settings: LendingSettings, holdings: ContainerRegistry, members: LendingMembers,
        clock: Clock, metrics: MetricsRegistry,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._holdings = holdings
        self._members = members
        self._clock = clock
        self._full = metrics.full
        self._timings = LendingTimings(idle_s=settings.idle_s, active_s=settings.active_s)
        self._lenders: dict[str, Lender] = {}
        self._decided: dict[str, LendingDecision] = {}
        """Card -> what was decided there last."""
        self._waiting: dict[str, int] = {}
        """Card -> ticks that skip it."""
        self._usage_files = OpenUsageFiles(_SELDOM)
        # No longer than after which cores are lent: who is lent of is looked at in every tick.
        again_s = min(_STANDS * settings.loan_s, settings.idle_s)
        self._steady = SteadyCards(again_s, self._counters_of)
        self._writer = LoanWriter(settings.loan_s)
        self._loans = CurrentLoans(settings.loan_s)
        self._turn: _Turn | None = None
        """The one that the last tick was of."""
        self._working = threading.Lock()
        self._over = threading.Event()
        metrics.collect(self._collect)

    async def run(self) -> NoReturn:
        """Lend, for ever; nothing is lent and no container held when it ends."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                if not self._settings.enabled:
                    await self.tick()
                    await asyncio.sleep(_OFF_S)
                    continue
                turn = self._next_turn()
                if turn.is_empty:
                    await sleep_until_multiple(_EMPTY_S)
                else:
                    await asyncio.to_thread(self._take, turn, loop.time())
        finally:
            self._end(loop.time())

    async def tick(self) -> None:
        """Read the counters once, decide, and write."""
        turn = self._next_turn()
        if not turn.is_empty:
            now = asyncio.get_running_loop().time()
            await asyncio.to_thread(self._tick, turn, now)

    def _next_turn(self) -> _Turn:
        """With those that run, and by card those that take part now."""
        running = self._running()
        if not self._settings.enabled:
            return _Turn({}, running)
        return _Turn(self._members.of(running, asyncio.get_running_loop().time()), running)

    def _end(self, now: float) -> None:
        """Runs on the loop, which may end before a thread would have written."""
        self._tick(_Turn({}, self._running()), now)
        with self._working:
            self._over.set()
            self._usage_files.keep_only(())

    def _running(self) -> list[Holding]:
        return [
            h for h in self._holdings if h.stage is ContainerStage.RUNNING and h.files is not None
        ]

    # -- in a thread

    def _take(self, turn: _Turn, began: float) -> None:
        """Tick until terms are to be read again. `began` is the loop's time, which only moves on
        while the loop does."""
        changes, start = self._holdings.changes, monotonic()
        at, until = start, start + next_multiple(began, _TURN_S) - began
        while at < until and changes == self._holdings.changes:
            self._tick(turn, began + at - start)
            due = at + self._settings.tick_s / (_REST_TICKS if self._loans.to_best_effort else 1)
            if self._over.wait(max(due - monotonic(), 0)):
                return
            at = monotonic()

    def _tick(self, turn: _Turn, now: float) -> None:
        """Read, decide and write; loans that end are written first."""
        with self._working:
            if not self._over.is_set():
                self._lend(turn, now)

    def _lend(self, turn: _Turn, now: float) -> None:
        affected: dict[ContainerKey, Holding] = {}
        if turn is not self._turn:
            self._begin(turn)
            affected = {held.key: held for held in turn.running if has_loan_or_hold(held)}
        wall_ns = self._clock.time_ns()
        for card, members in turn.members.items():
            if not self._is_skipped(card) and self._decide(card, members, now, wall_ns):
                affected |= {held.key: held for held in turn.on_card.get(card, ())}
        changed, ending = bool(affected), self._loans.ending(wall_ns)
        if changed or ending:
            affected |= {held.key: held for held in ending}
            self._writer.write(self._wanted(affected.values()), wall_ns)
        if changed:
            self._loans.take(turn.running)

    def _begin(self, turn: _Turn) -> None:
        """Forget who and what takes part no more."""
        self._turn, members = turn, turn.members
        self._waiting = {card: n for card, n in self._waiting.items() if card in members}
        self._lenders = {card: one for card, one in self._lenders.items() if card in members}
        self._decided = {card: one for card, one in self._decided.items() if card in members}
        self._steady.keep_only(members)
        self._usage_files.keep_only({held.key for held in turn.running})

    def _is_skipped(self, card: str) -> bool:
        """Whether nothing changes there, so that it waits for some ticks."""
        left = self._waiting.get(card, 0)
        if left:
            self._waiting[card] = left - 1
        return left > 0

    def _decide(
        self, card: str, members: Sequence[LendingMember], now: float, wall_ns: int
    ) -> bool:
        """Whether something new was decided there."""
        counters = self._steady.due(card, members, now)
        if counters is not None:
            before = self._decided.get(card)
            lender = self._lenders.setdefault(card, Lender(self._timings))
            samples = [_sample(m, c, wall_ns) for m, c in zip(members, counters, strict=True)]
            decision = self._decided[card] = lender.decide(samples, now)
            same = decision == before and not decision.held
            self._steady.decided(card, members, counters, now, same=same)
        if self._decided[card].calm:
            self._waiting[card] = _CALM
        return counters is not None

    def _counters_of(self, member: LendingMember) -> UsageRecord:
        return self._usage_files.record(member.key, member.files, member.card)

    def _wanted(self, containers: Iterable[Holding]) -> Iterable[WantedLoans]:
        """What each is to have, by all of its cards."""
        for held in containers:
            name, loans, hold = _name(held.key), {}, False
            for limit in limits_of(held).cards:
                decision = self._decided.get(limit.uuid)
                loans[limit.uuid] = decision.loans.get(name, 0) if decision else 0
                hold |= decision is not None and name in decision.held
            if held.files is not None:
                yield WantedLoans(held.files, loans, hold)

    # -- metrics

    def _collect(self) -> Iterable[Metric]:
        full, wall_ns = self._full, self._clock.time_ns()
        lent = GaugeMetricFamily(
            full("container_lent_percent"), "Cores lent on top.", labels=(*_POD, "card")
        )
        held = GaugeMetricFamily(
            full("container_held"), "1 = it waits for a more important one.", labels=_POD
        )
        for one in self._running():
            labels = (one.pod.namespace, one.pod.name, one.key.container)
            limits = limits_of(one)
            held.add_metric(labels, float(waits(limits, wall_ns)))
            for card in limits.cards:
                lent.add_metric((*labels, card.uuid), lent_permille(card, wall_ns) / _PERMILLE)
        changes = CounterMetricFamily(full("loans"), "Changes of loans.", labels=("what",))
        for what, count in self._writer.changes.items():
            changes.add_metric((what,), count)
        yield from (lent, held, changes)


def _sample(member: LendingMember, counters: UsageCounters, wall_ns: int) -> CounterSample:
    limit = next(card for card in member.files.limits.cards if card.uuid == member.card)
    return CounterSample(
        key=_name(member.key), priority=member.priority, lends=member.lends,
        namespace=member.namespace, reaches=member.reaches, works=member.works,
        rest=limit.is_rest,
        granted_permille=0 if limit.mode is Mode.OFF else limit.cores_permille,
        most_permille=member.most_permille if member.lends else 0,
        lent_permille=lent_permille(limit, wall_ns),
        gpu_ns=counters.gpu_ns, throttled_ns=counters.throttled_ns,
        launches=counters.launches,
    )  # fmt: skip


def _name(key: ContainerKey) -> str:
    return f"{key.uid}/{key.container}"
