"""Health goes at once and comes back slowly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_agent.devices.cards import CardHealthTracker, CardsState
from tessera_agent.devices.settings import HealthSettings
from tessera_agent.readers import DriverSilent
from tessera_core.dialect_kit.readings import CardReading, Fault, Readings
from tessera_core.machines.health import (
    LEGAL,
    Answered,
    Event,
    Faulted,
    HealthPhase,
    Missed,
    Recovered,
    advance,
    takes_pods,
)
from tessera_core.machines.state_machine import IllegalTransition
from tessera_core.vendors.nvidia import MONITORING

EVENTS: tuple[Event, ...] = (Answered(), Faulted(), Recovered(), Missed())
SETTINGS = HealthSettings(patience_s=15, recover_polls=3, forget_s=100)


def test_every_phase_but_the_first_is_reached() -> None:
    assert set(LEGAL.values()) == set(HealthPhase) - {HealthPhase.UNSEEN}


@pytest.mark.parametrize("phase", HealthPhase)
def test_a_fault_ends_every_phase_at_once(phase: HealthPhase) -> None:
    assert advance(phase, Faulted()) is HealthPhase.UNHEALTHY


@pytest.mark.parametrize("phase", HealthPhase)
def test_silence_ends_every_phase_in_time(phase: HealthPhase) -> None:
    assert advance(advance(phase, Missed()), Missed()) is HealthPhase.GONE


@given(st.lists(st.sampled_from(EVENTS), max_size=30))
def test_what_was_lost_comes_back_through_recovery_alone(events: list[Event]) -> None:
    phase = HealthPhase.UNSEEN
    for event in events:
        if (phase, type(event)) not in LEGAL:
            with pytest.raises(IllegalTransition):
                advance(phase, event)
            continue
        after = advance(phase, event)
        if takes_pods(after) and phase in (HealthPhase.UNHEALTHY, HealthPhase.GONE):
            assert isinstance(event, Recovered)
        phase = after


def a_card(index: int = 0, **more: object) -> CardReading:
    card = CardReading(id=f"GPU-{index}", index=index, model="NVIDIA A", memory_bytes=1 << 34)
    return replace(card, **more)


def xid(code: int) -> tuple[Fault, ...]:
    return (Fault(code=code, what=f"XID {code}"),)


def poll(*cards: CardReading, session: int = 1) -> Readings:
    return Readings(cards=cards, driver="570", session=session)


class Watch:
    """A keeper that is polled once a second."""

    def __init__(self, settings: HealthSettings = SETTINGS) -> None:
        self.tracker = CardHealthTracker(MONITORING, settings, slots=10)
        self.now_s = 0.0
        self.seen = CardsState()

    def see(self, what: Readings | DriverSilent, times: int = 1) -> list[bool]:
        """Health of the cards after the last of some equal polls."""
        for _ in range(times):
            self.seen = self.tracker.update(what, self.now_s)
            self.now_s += 1
        return [card.healthy for card in self.seen.cards]


SILENT = DriverSilent(why="it hangs", hanging=True)


def test_a_card_that_answers_takes_pods() -> None:
    watch = Watch()
    assert watch.see(poll(a_card(0), a_card(1))) == [True, True]
    assert (watch.seen.complete, watch.seen.problems, watch.seen.driver) == (True, (), "570")
    assert [c.slots for c in watch.seen.cards] == [10, 10]


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68, 109])
def test_a_programs_own_mistake_is_not_the_cards(code: int) -> None:
    assert Watch().see(poll(a_card(faults=xid(code)))) == [True]


def test_an_operator_may_ignore_more() -> None:
    settings = replace(SETTINGS, ignored_codes=(94,))
    assert Watch(settings).see(poll(a_card(faults=xid(94)))) == [True]


def test_any_other_fault_takes_the_card_at_once_and_only_it() -> None:
    watch = Watch()
    watch.see(poll(a_card(0), a_card(1)))
    assert watch.see(poll(a_card(0, faults=xid(94)), a_card(1))) == [False, True]
    assert watch.seen.problems == ("card 0 (GPU-0) is unhealthy: XID 94",)


def test_good_polls_in_a_row_bring_it_back() -> None:
    watch = Watch()
    watch.see(poll(a_card(faults=xid(94))))
    assert watch.see(poll(a_card()), times=2) == [False]
    assert watch.see(poll(a_card(faults=xid(94)))) == [False]
    assert watch.see(poll(a_card()), times=2) == [False]
    assert watch.see(poll(a_card())) == [True]
    assert watch.seen.back == ("card 0 (GPU-0) takes pods again",)
    assert watch.seen.problems == ()


def test_nothing_brings_it_back_where_an_operator_says_so() -> None:
    watch = Watch(replace(SETTINGS, recover_polls=0))
    watch.see(poll(a_card(faults=xid(94))))
    assert watch.see(poll(a_card()), times=500) == [False]


def test_some_faults_only_a_reset_ends() -> None:
    watch = Watch()
    watch.see(poll(a_card(faults=xid(79))))
    assert watch.see(poll(a_card()), times=500) == [False]
    assert "until it is reset: XID 79" in watch.seen.problems[0]
    assert watch.see(poll(a_card(), session=2), times=3) == [True]


def test_what_stands_keeps_the_card_out() -> None:
    watch = Watch()
    pending = (Fault(what="its driver asks for a reset of the card"),)
    assert watch.see(poll(a_card(standing=pending)), times=9) == [False]
    assert watch.see(poll(a_card()), times=3) == [True]


def test_one_missed_poll_takes_nothing() -> None:
    watch = Watch()
    watch.see(poll(a_card(0), a_card(1)))
    assert watch.see(poll(a_card(0))) == [True, True]
    assert watch.see(poll(a_card(0), a_card(1))) == [True, True]


def test_silence_is_borne_for_a_while_and_then_every_card_is_gone() -> None:
    watch = Watch()
    watch.see(poll(a_card(0), a_card(1)))
    assert watch.see(SILENT, times=15) == [True, True]
    assert watch.seen.problems == ()
    assert watch.see(SILENT) == [False, False]
    assert "the driver does not answer: it hangs" in watch.seen.problems
    assert "card 1 (GPU-1) is gone: it does not answer" in watch.seen.problems
    assert watch.see(poll(a_card(0), a_card(1)), times=2) == [False, False]
    assert watch.see(poll(a_card(0), a_card(1)), times=2) == [True, True]


def test_a_card_that_stays_away_is_forgotten() -> None:
    watch = Watch()
    watch.see(poll(a_card(0), a_card(1)))
    assert watch.see(poll(a_card(0)), times=100) == [True, False]
    assert watch.see(poll(a_card(0))) == [True]


def test_nothing_is_concluded_before_the_driver_has_spoken() -> None:
    watch = Watch()
    watch.see(SILENT, times=5)
    assert not watch.seen.complete


def test_a_new_agent_takes_away_what_an_old_one_published() -> None:
    published = Watch()
    published.see(poll(a_card(0), a_card(1)))
    watch = Watch()
    watch.tracker.learn(published.seen.cards)
    watch.see(SILENT, times=15)
    assert not watch.seen.complete
    assert watch.see(SILENT) == [False, False]
    assert watch.seen.complete


def test_a_card_that_a_new_agent_does_not_find_takes_no_pods() -> None:
    published = Watch()
    published.see(poll(a_card(0), a_card(1)))
    watch = Watch()
    watch.tracker.learn(published.seen.cards)
    assert watch.see(poll(a_card(0))) == [True, False]


def test_modes_that_are_left_alone_are_problems() -> None:
    watch = Watch()
    watch.see(poll(a_card(0, mode="mig"), a_card(1, mode="mps")))
    assert [c.mode for c in watch.seen.cards] == ["mig", "mps"]
    assert len(watch.seen.problems) == 2
