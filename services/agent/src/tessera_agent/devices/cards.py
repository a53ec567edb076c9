"""The health of one vendor's cards: readings come in, cards with their health come out.

Pure but for what it remembers; `monitor` polls. Health is taken away at once and given back slowly
(`tessera_core.machines.health`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.devices.settings import HealthSettings
from tessera_agent.readers import DriverSilent
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
    """The cards and their health after a poll."""

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


class _CardHistory:
    """What is remembered of one card."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.phase = HealthPhase.UNSEEN
        self.good = 0
        self.why = ""
        self.missing_since: float | None = None
        self.reset_after: int | None = None
        """Only good polls of a later session count: a fault that only a reset ends."""


class CardHealthTracker:
    """Decides on the health of every card, by its readings and its history."""

    def __init__(self, spec: MonitoringSpec, health: HealthSettings, slots: int) -> None:
        self._spec = spec
        self._health = health
        self._slots = slots
        self._ignored = spec.application_faults | set(health.ignored_codes)
        self._known: dict[str, _CardHistory] = {}
        self._answered = False
        self._driver = ""
        self._silent_since: float | None = None

    def learn(self, found: Sequence[Card]) -> None:
        """Take the cards that were published before this agent started: those that do not show
        count as missing too."""
        for card in found:
            self._known.setdefault(card.id, _CardHistory(card))

    def update(self, answer: Readings | DriverSilent, now_s: float) -> CardsState:
        """Take the driver's answer, and return what holds from now on. `now_s` is of a clock that
        never jumps."""
        before = {id_: card.phase for id_, card in self._known.items()}
        problems: list[str] = []
        silent = ""
        if isinstance(answer, DriverSilent):
            silent = f"the driver does not answer: {answer.why}"
            if self._silent_since is None:
                self._silent_since = now_s
            if now_s - self._silent_since >= self._health.patience_s:
                problems.append(silent)
            present: Mapping[str, Card] = {}
        else:
            self._answered, self._driver, self._silent_since = True, answer.driver, None
            cards, odd = self._spec.cards(answer, self._slots)
            present = {card.id: card for card in cards if self._has_size(card)}
            odd = (*odd, *(_without_size(card) for card in cards if not self._has_size(card)))
            problems += [*answer.problems, *odd, *version_problems(self._spec.minimums, answer)]
            self._take(answer, present)
        for id_ in [id_ for id_ in self._known if id_ not in present]:
            self._miss(id_, now_s)
        known = sorted(self._known.values(), key=lambda k: (k.card.index, k.card.id))
        problems += [line for k in known for line in _problems(k)]
        return CardsState(
            cards=tuple(replace(k.card, healthy=takes_pods(k.phase)) for k in known),
            problems=tuple(dict.fromkeys(problems)), silent=silent, driver=self._driver,
            back=tuple(_back(k) for k in known if _is_back(before.get(k.card.id), k.phase)),
            complete=self._answered or {k.phase for k in known} == {HealthPhase.GONE},
        )  # fmt: skip

    def _has_size(self, card: Card) -> bool:
        return self._spec.counted or card.memory_bytes > 0

    def _take(self, answer: Readings, present: Mapping[str, Card]) -> None:
        readings = {card.id: card for card in answer.cards}
        for id_, card in present.items():
            history = self._known.setdefault(id_, _CardHistory(card))
            history.card, history.missing_since = card, None
            faults = self._serious(readings.get(id_), card)
            if faults:
                self._fault(history, faults, answer.session)
            else:
                self._answer(history, answer.session)

    def _serious(self, reading: CardReading | None, card: Card) -> tuple[Fault, ...]:
        faults: tuple[Fault, ...] = ()
        if reading is not None:
            reported = (f for f in reading.faults if not f.code or f.code not in self._ignored)
            faults = (*reported, *reading.standing)
        if not card.healthy:
            faults = (*faults, Fault(what="its plugin reports it as unhealthy"))
        return faults

    def _fault(self, history: _CardHistory, faults: Sequence[Fault], session: int) -> None:
        history.good = 0
        history.why = ", ".join(dict.fromkeys(fault.what for fault in faults))
        if {fault.code for fault in faults} & self._spec.reset_faults:
            history.reset_after = session
        _move(history, Faulted())

    def _answer(self, history: _CardHistory, session: int) -> None:
        _move(history, Answered())
        if history.reset_after is not None and session <= history.reset_after:
            return
        history.reset_after = None
        history.good += 1
        if history.phase is not HealthPhase.UNHEALTHY:
            history.why = ""
        elif 0 < self._health.recover_polls <= history.good:
            _move(history, Recovered())
            history.why = ""

    def _miss(self, id_: str, now_s: float) -> None:
        history = self._known[id_]
        history.good = 0
        if history.missing_since is None:
            history.missing_since = now_s
            if history.phase is HealthPhase.HEALTHY:
                _move(history, Missed())
        silent_s = now_s - history.missing_since
        if silent_s >= self._health.patience_s and history.phase is not HealthPhase.GONE:
            history.why = history.why or "it does not answer"
            _move(history, Missed())
        if history.phase is HealthPhase.GONE and silent_s >= self._health.forget_s:
            del self._known[id_]


def _move(history: _CardHistory, event: Event) -> None:
    history.phase = advance(history.phase, event)


def _is_back(before: HealthPhase | None, after: HealthPhase) -> bool:
    return before in (HealthPhase.UNHEALTHY, HealthPhase.GONE) and takes_pods(after)


def _back(history: _CardHistory) -> str:
    return f"card {history.card.index} ({history.card.id}) takes pods again"


def _without_size(card: Card) -> str:
    return (
        f"card {card.index} ({card.id}) shares its host's memory, and its driver does not say how "
        "much of that it may use: set unified_memory_mib for this node"
    )


def _problems(history: _CardHistory) -> list[str]:
    name = f"card {history.card.index} ({history.card.id})"
    problems = []
    if not takes_pods(history.phase) and history.phase is not HealthPhase.UNSEEN:
        wait = " until it is reset" if history.reset_after is not None else ""
        problems.append(f"{name} is {history.phase}{wait}: {history.why}")
    if history.card.mode == "mig":
        problems.append(f"{name} is in MIG mode: it is left alone")
    if history.card.mode == "mps":
        problems.append(f"{name} is served by an MPS daemon, which limits do not reach")
    return problems
