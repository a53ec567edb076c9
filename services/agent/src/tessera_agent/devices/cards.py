"""What is believed of one vendor's cards: readings come in, cards with their health come out.

Pure but for what it remembers; the polls and their pace are `devices`' part. Health is taken away
at once and given back slowly (`machines.health`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.readers import DriverSilent
from tessera_agent.settings import HealthSettings
from tessera_core.dialect_kit.monitoring import MonitoringSpec, version_problems
from tessera_core.dialect_kit.readings import CardReading, Fault, Readings
from tessera_core.machines.health import (
    Answered,
    Event,
    Faulted,
    HealthPhase,
    Missed,
    Recovered,
    advance,
    takes_pods,
)
from tessera_schema.cards import Card


class CardsState(Struct, frozen=True, kw_only=True):
    """What is believed after a poll."""

    cards: tuple[Card, ...] = ()
    """By index. Those that are gone stay, unhealthy, until they are forgotten."""
    problems: tuple[str, ...] = ()
    silent: str = ""
    """Why the driver does not answer just now; a problem once that has lasted."""
    driver: str = ""
    back: tuple[str, ...] = ()
    """A sentence for each card that takes pods again with this poll."""
    complete: bool = False
    """False until the driver has answered once, or its silence has lasted: what is published then
    stays as it is."""


class _Kept:
    """One card's memory."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.phase = HealthPhase.UNSEEN
        self.good = 0
        self.why = ""
        self.missing_since: float | None = None
        self.reset_after: int | None = None
        """Session after which alone good polls count: a fault that only a reset ends."""


class CardHealthTracker:
    """Remembers the health of every card."""

    def __init__(self, care: MonitoringSpec, health: HealthSettings, slots: int) -> None:
        """Nothing is known yet."""
        self._care = care
        self._health = health
        self._slots = slots
        self._ignored = care.application_faults | set(health.ignored_codes)
        self._kept: dict[str, _Kept] = {}
        self._answered = False
        self._driver = ""
        self._silent_since: float | None = None

    def learn(self, found: Sequence[Card]) -> None:
        """The cards that were published before this agent started: those that do not show are
        missed too."""
        for card in found:
            self._kept.setdefault(card.id, _Kept(card))

    def see(self, seen: Readings | DriverSilent, now_s: float) -> CardsState:
        """What is believed from now on. `now_s` is of a clock that never jumps."""
        before = {id_: kept.phase for id_, kept in self._kept.items()}
        problems: list[str] = []
        silent = f"the driver does not answer: {seen.why}" if isinstance(seen, DriverSilent) else ""
        if isinstance(seen, DriverSilent):
            if self._silent_since is None:
                self._silent_since = now_s
            if now_s - self._silent_since >= self._health.patience_s:
                problems.append(silent)
            present: Mapping[str, Card] = {}
        else:
            self._answered, self._driver, self._silent_since = True, seen.driver, None
            cards, odd = self._care.cards(seen, self._slots)
            present = {card.id: card for card in cards}
            problems += [*seen.problems, *odd, *version_problems(self._care.minimums, seen)]
            self._take(seen, present)
        for id_ in [id_ for id_ in self._kept if id_ not in present]:
            self._miss(id_, now_s)
        kept = sorted(self._kept.values(), key=lambda k: (k.card.index, k.card.id))
        problems += [line for k in kept for line in _problems(k)]
        return CardsState(
            cards=tuple(replace(k.card, healthy=takes_pods(k.phase)) for k in kept),
            problems=tuple(dict.fromkeys(problems)), silent=silent, driver=self._driver,
            back=tuple(_back(k) for k in kept if _is_back(before.get(k.card.id), k.phase)),
            complete=self._answered or {k.phase for k in kept} == {HealthPhase.GONE},
        )  # fmt: skip

    def _take(self, seen: Readings, present: Mapping[str, Card]) -> None:
        readings = {card.id: card for card in seen.cards}
        for id_, card in present.items():
            kept = self._kept.setdefault(id_, _Kept(card))
            kept.card, kept.missing_since = card, None
            faults = self._serious(readings.get(id_), card)
            if faults:
                self._fault(kept, faults, seen.session)
            else:
                self._answer(kept, seen.session)

    def _serious(self, reading: CardReading | None, card: Card) -> tuple[Fault, ...]:
        faults: tuple[Fault, ...] = ()
        if reading is not None:
            reported = (f for f in reading.faults if not f.code or f.code not in self._ignored)
            faults = (*reported, *reading.standing)
        if not card.healthy:
            faults = (*faults, Fault(what="its plugin reports it as unhealthy"))
        return faults

    def _fault(self, kept: _Kept, faults: Sequence[Fault], session: int) -> None:
        kept.good = 0
        kept.why = ", ".join(dict.fromkeys(fault.what for fault in faults))
        if {fault.code for fault in faults} & self._care.reset_faults:
            kept.reset_after = session
        _move(kept, Faulted())

    def _answer(self, kept: _Kept, session: int) -> None:
        _move(kept, Answered())
        if kept.reset_after is not None and session <= kept.reset_after:
            return
        kept.reset_after = None
        kept.good += 1
        if kept.phase is not HealthPhase.UNHEALTHY:
            kept.why = ""
        elif 0 < self._health.recover_polls <= kept.good:
            _move(kept, Recovered())
            kept.why = ""

    def _miss(self, id_: str, now_s: float) -> None:
        kept = self._kept[id_]
        kept.good = 0
        if kept.missing_since is None:
            kept.missing_since = now_s
            if kept.phase is HealthPhase.HEALTHY:
                _move(kept, Missed())
        silent_s = now_s - kept.missing_since
        if silent_s >= self._health.patience_s and kept.phase is not HealthPhase.GONE:
            kept.why = kept.why or "it does not answer"
            _move(kept, Missed())
        if kept.phase is HealthPhase.GONE and silent_s >= self._health.forget_s:
            del self._kept[id_]


def _move(kept: _Kept, event: Event) -> None:
    kept.phase = advance(kept.phase, event)


def _is_back(before: HealthPhase | None, after: HealthPhase) -> bool:
    return before in (HealthPhase.UNHEALTHY, HealthPhase.GONE) and takes_pods(after)


def _back(kept: _Kept) -> str:
    return f"card {kept.card.index} ({kept.card.id}) takes pods again"


def _problems(kept: _Kept) -> list[str]:
    name = f"card {kept.card.index} ({kept.card.id})"
    told = []
    if not takes_pods(kept.phase) and kept.phase is not HealthPhase.UNSEEN:
        wait = " until it is reset" if kept.reset_after is not None else ""
        told.append(f"{name} is {kept.phase}{wait}: {kept.why}")
    if kept.card.mode == "mig":
        told.append(f"{name} is in MIG mode: it is left alone")
    if kept.card.mode == "mps":
        told.append(f"{name} is served by an MPS daemon, which limits do not reach")
    return told
