"""Lends idle cores on the node's cards, ten times a second and without any network: the counters of
the hooks come in, `tessera_core.node.core_lending` decides, loans and holds go into limits files.

A thread does so for half a second at a time: what a tick reads is less work than to wake the loop
and a thread for it. Who takes part, and on what terms, is read on the loop between two such turns,
and a container that comes or goes ends a turn.

Both end by themselves a second after they were last renewed, with the agent or without. Hooks older
than the agent may know no end of holds: the first tick of an agent that follows one that died
removes what it left. Only cards on which cores could be lent, or a container held, are examined,
and what was decided there stands for a while as long as nobody who was quiet stirs.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Final, NoReturn

from msgspec.structs import replace

from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey
from tessera_agent.lending.members import LendingMember, LendingMembers
from tessera_agent.lending.settings import LendingSettings
from tessera_agent.lending.steady_cards import SteadyCards
from tessera_agent.usage.usage_counters import OpenUsageFiles
from tessera_core.hook.limits_file import CardFlag, CardLimit, Flag, HookLimits, Mode
from tessera_core.hook.usage_counters import UsageCounters
from tessera_core.node.core_lending import CounterSample, Lender, LendingDecision, LendingTimings
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.metrics import CounterMetricFamily, GaugeMetricFamily, Metric, MetricsRegistry

_log: Final = logs.named("tessera.agent.lending")
_SECOND: Final = 1_000_000_000
_CALM: Final = 3
"""Ticks that skip a card on which no container is lent to, held, or held back."""
_TURN_S: Final = 0.5
"""Seconds for which the thread ticks on the same terms."""
_OFF_S: Final = 5.0
"""Seconds between ticks where nothing is lent: what another agent left is removed."""
_REST_TICKS: Final = 2
"""Ticks in the time of one while a best-effort container has a loan: owners have their cores back
sooner."""
_SELDOM: Final = 4
"""Reads of counters between two searches for those of a card that was not used yet."""
_STANDS: Final = 0.3
"""Part of a loan's time for which a decision stands: it is renewed when half of that has passed."""
_PERMILLE: Final = 10
_HOLD: Final = int(Flag.HOLD_LAUNCHES)
_POD: Final = ("namespace", "pod", "container")


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
        self._metrics = metrics
        self._timings = LendingTimings(idle_s=settings.idle_s, active_s=settings.active_s)
        self._lenders: dict[str, Lender] = {}
        self._waiting: dict[str, int] = {}
        """Card -> ticks that skip it."""
        self._steady = SteadyCards(_STANDS * settings.loan_s)
        self._usage_files = OpenUsageFiles(_SELDOM)
        self._working = threading.Lock()
        self._over = threading.Event()
        self._changes: Counter[str] = Counter(dict.fromkeys(("lent", "taken-back", "failed"), 0))
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
                due = loop.time() + _TURN_S
                running, members = self._takers()
                if members or any(map(_has_loan_or_hold, running)):
                    await asyncio.to_thread(self._turn, members, running, loop.time())
                else:
                    await asyncio.sleep(max(due - loop.time(), 0))
        finally:
            self._end(loop.time())

    async def tick(self) -> None:
        """Read the counters once, decide, and write."""
        running, members = self._takers()
        if members or any(map(_has_loan_or_hold, running)):
            now = asyncio.get_running_loop().time()
            await asyncio.to_thread(self._tick, members, running, now)

    def _takers(self) -> tuple[list[Holding], Mapping[str, Sequence[LendingMember]]]:
        """Those that run, and by card those that take part now."""
        running = self._running()
        if not self._settings.enabled:
            return running, {}
        return running, self._members.of(running, asyncio.get_running_loop().time())

    def _end(self, now: float) -> None:
        """Runs on the loop, which may end before a thread would have written."""
        self._tick({}, self._running(), now)
        with self._working:
            self._over.set()
            self._usage_files.keep_only(())

    def _running(self) -> list[Holding]:
        return [
            h for h in self._holdings if h.stage is ContainerStage.RUNNING and h.files is not None
        ]

    # -- in a thread

    def _turn(
        self, members: Mapping[str, Sequence[LendingMember]], running: Sequence[Holding],
        began: float,
    ) -> None:  # fmt: skip
        """Tick until terms are to be read again. `began` is the loop's time, which only moves on
        while the loop does."""
        changes, start = self._holdings.changes, monotonic()
        at = start
        while at < start + _TURN_S and changes == self._holdings.changes:
            self._tick(members, running, began + at - start)
            due = at + self._settings.tick_s / (_REST_TICKS if _lends_rest(running) else 1)
            if self._over.wait(max(due - monotonic(), 0)):
                return
            at = monotonic()

    def _tick(
        self, members: Mapping[str, Sequence[LendingMember]], running: Sequence[Holding], now: float
    ) -> None:
        """Read, decide and write; loans that end are written first."""
        with self._working:
            if not self._over.is_set():
                self._lend(self._due(members), running, now)

    def _due(
        self, members: Mapping[str, Sequence[LendingMember]]
    ) -> Mapping[str, Sequence[LendingMember]]:
        """The cards to examine now: those on which nothing changes wait for some ticks."""
        waiting = {c: n - 1 for c, n in self._waiting.items() if n > 0 and c in members}
        self._waiting = waiting
        self._lenders = {c: known for c, known in self._lenders.items() if c in members}
        self._steady.keep_only(members)
        return {card: all_ for card, all_ in members.items() if card not in waiting}

    def _lend(
        self, cards: Mapping[str, Sequence[LendingMember]], running: Sequence[Holding], now: float
    ) -> None:
        wall_ns = self._clock.time_ns()
        decided, standing = self._decisions(cards, now, wall_ns)
        self._waiting |= {card: _CALM for card, one in decided.items() if one.calm}
        if cards and len(standing) == len(cards):
            return
        self._usage_files.keep_only({held.key for held in running})
        wanted: list[tuple[ContainerFiles, Mapping[str, int], bool]] = []
        for held in running:
            if held.files is not None and all(
                limit.uuid in standing for limit in held.files.limits.cards
            ):
                continue
            loans, hold = _wanted(held, decided)
            if held.files is not None and (hold or any(loans.values()) or _has_loan_or_hold(held)):
                wanted.append((held.files, loans, hold))
        self._write_all(wanted, wall_ns)

    def _write_all(
        self, wanted: Iterable[tuple[ContainerFiles, Mapping[str, int], bool]], wall_ns: int
    ) -> None:
        """Write loans and holds, those that end first."""
        stuck: set[str] = set()
        later = []
        for files, loans, hold in wanted:
            less = {c: n for c, n in loans.items() if n <= _lent(files.limits, c, wall_ns)}
            if not self._write(files, less, hold=hold, wall_ns=wall_ns):
                stuck |= {c for c in loans if _lent(files.limits, c, wall_ns)}
            if len(less) < len(loans):
                later.append((files, loans, hold))
        for files, loans, hold in later:
            more = {c: n for c, n in loans.items() if c not in stuck}
            self._write(files, more, hold=hold, wall_ns=wall_ns)

    def _decisions(
        self, cards: Mapping[str, Sequence[LendingMember]], now: float, wall_ns: int
    ) -> tuple[dict[str, LendingDecision], set[str]]:
        """What holds on these cards, and on which of them nothing new was decided."""
        decided: dict[str, LendingDecision] = {}
        standing = set()
        for card, members in cards.items():
            found = self._steady.standing(card, members, self._read, now)
            if isinstance(found, LendingDecision):
                decided[card] = found
                standing.add(card)
                continue
            lender = self._lenders.setdefault(card, Lender(self._timings))
            samples = [_sample(m, c, wall_ns) for m, c in zip(members, found, strict=True)]
            decided[card] = lender.decide(samples, now)
            self._steady.decided(card, members, decided[card], now)
        return decided, standing

    def _read(self, member: LendingMember) -> UsageCounters:
        return self._usage_files.read(member.key, member.files, member.card)

    def _write(
        self, files: ContainerFiles, loans: Mapping[str, int], *, hold: bool, wall_ns: int
    ) -> bool:
        """Write loans and hold where they differ; whether the file has them now."""
        before, renew_ns = files.limits, wall_ns + round(self._settings.loan_s * _SECOND / 2)
        if not _hold_differs(before, renew_ns, hold=hold) and not any(
            _differs(card, loans.get(card.uuid), renew_ns) for card in before.cards
        ):
            return True
        until_ns = wall_ns + round(self._settings.loan_s * _SECOND)

        def changed(limits: HookLimits) -> HookLimits:
            cards = tuple(_with_loan(card, loans.get(card.uuid), until_ns) for card in limits.cards)
            return _with_hold(replace(limits, cards=cards), until_ns if hold else None)

        try:
            self._count(before, files.change(changed), wall_ns)
        except (OSError, ValueError) as e:
            self._changes["failed"] += 1
            _log.warning("loans not written", container=before.container, why=str(e))
            return False
        return True

    def _count(self, before: HookLimits, after: HookLimits, wall_ns: int) -> None:
        for card in after.cards:
            was = _lent(before, card.uuid, wall_ns)
            self._changes["lent"] += card.lent_permille > was
            self._changes["taken-back"] += card.lent_permille < was

    # -- metrics

    def _collect(self) -> Iterable[Metric]:
        full, wall_ns = self._metrics.full, self._clock.time_ns()
        lent = GaugeMetricFamily(
            full("container_lent_percent"), "Cores lent on top.", labels=(*_POD, "card")
        )
        held = GaugeMetricFamily(
            full("container_held"), "1 = it waits for a more important one.", labels=_POD
        )
        for one in self._running():
            labels = (one.pod.namespace, one.pod.name, one.key.container)
            limits = one.files.limits if one.files else one.limits
            held.add_metric(labels, float(_waits(limits, wall_ns)))
            for card in limits.cards:
                loan = _lent(limits, card.uuid, wall_ns) / _PERMILLE
                lent.add_metric((*labels, card.uuid), loan)
        changes = CounterMetricFamily(full("loans"), "Changes of loans.", labels=("what",))
        for what, count in self._changes.items():
            changes.add_metric((what,), count)
        yield from (lent, held, changes)


def _sample(member: LendingMember, counters: UsageCounters, wall_ns: int) -> CounterSample:
    limit = next(c for c in member.files.limits.cards if c.uuid == member.card)
    return CounterSample(
        key=_name(member.key), priority=member.priority, lends=member.lends,
        namespace=member.namespace, reaches=member.reaches, works=member.works,
        rest=bool(limit.flags & CardFlag.REST),
        granted_permille=0 if limit.mode is Mode.OFF else limit.cores_permille,
        most_permille=member.most_permille if member.lends else 0,
        lent_permille=_in_force(limit, wall_ns),
        gpu_ns=counters.gpu_ns, throttled_ns=counters.throttled_ns,
        launches=counters.launches,
    )  # fmt: skip


def _has_loan_or_hold(held: Holding) -> bool:
    """Whether its limits file has a loan or a hold."""
    limits = held.files.limits if held.files else held.limits
    return bool(int(limits.flags) & _HOLD) or any(c.lent_permille for c in limits.cards)


def _wanted(held: Holding, decided: Mapping[str, LendingDecision]) -> tuple[dict[str, int], bool]:
    """The loans of one container, by card, and whether it is held."""
    name, limits = _name(held.key), held.files.limits if held.files else held.limits
    loans, hold = {}, False
    for limit in limits.cards:
        decision = decided.get(limit.uuid)
        loans[limit.uuid] = decision.loans.get(name, 0) if decision else 0
        hold |= decision is not None and name in decision.held
    return loans, hold


def _lends_rest(running: Iterable[Holding]) -> bool:
    """Whether a best-effort container has a loan."""
    return any(
        card.lent_permille and card.flags & CardFlag.REST
        for held in running if held.files is not None
        for card in held.files.limits.cards
    )  # fmt: skip


def _name(key: ContainerKey) -> str:
    return f"{key.uid}/{key.container}"


def _lent(limits: HookLimits, card: str, wall_ns: int) -> int:
    """The loan in force, in permille."""
    for limit in limits.cards:
        if limit.uuid == card:
            return _in_force(limit, wall_ns)
    return 0


def _in_force(limit: CardLimit, wall_ns: int) -> int:
    elastic = limit.mode is Mode.ELASTIC and wall_ns < limit.lent_until_ns
    return limit.lent_permille if elastic else 0


def _waits(limits: HookLimits, wall_ns: int) -> bool:
    """Whether the container's launches wait now."""
    endless = limits.hold_until_ns == 0
    return bool(int(limits.flags) & _HOLD) and (endless or wall_ns < limits.hold_until_ns)


def _hold_differs(limits: HookLimits, renew_ns: int, *, hold: bool) -> bool:
    """Whether the file says otherwise, or the hold has to be renewed."""
    if hold != bool(int(limits.flags) & _HOLD):
        return True
    return hold and limits.hold_until_ns <= renew_ns


def _with_hold(limits: HookLimits, until_ns: int | None) -> HookLimits:
    """None = it is not held."""
    if until_ns is None:
        return replace(limits, flags=limits.flags & ~Flag.HOLD_LAUNCHES, hold_until_ns=0)
    return replace(limits, flags=limits.flags | Flag.HOLD_LAUNCHES, hold_until_ns=until_ns)


def _differs(limit: CardLimit, loan: int | None, renew_ns: int) -> bool:
    """Whether the loan is another one, or has to be renewed; None = it may stay as it is."""
    if loan is None:
        return False
    return loan != limit.lent_permille or (loan > 0 and limit.lent_until_ns <= renew_ns)


def _with_loan(limit: CardLimit, loan: int | None, until_ns: int) -> CardLimit:
    if loan is None:
        return limit
    if not loan:
        return replace(limit, lent_permille=0, lent_until_ns=0)
    return replace(limit, mode=Mode.ELASTIC, lent_permille=loan, lent_until_ns=until_ns)
