import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.machines.registration import (
    LEGAL,
    Accepted,
    Event,
    RegistrationPhase,
    SocketAppeared,
    SocketVanished,
    StopRequested,
    advance,
)
from tessera_core.machines.state_machine import IllegalTransition

EVENTS: list[Event] = [SocketAppeared(), Accepted(), SocketVanished(), StopRequested()]


def test_every_phase_can_be_reached_and_left() -> None:
    assert {RegistrationPhase.DETACHED} | set(LEGAL.values()) == set(RegistrationPhase)
    assert {phase for phase, _ in LEGAL} == set(RegistrationPhase) - {RegistrationPhase.STOPPED}


@given(st.lists(st.sampled_from(EVENTS)))
def test_nobody_serves_without_having_registered_at_this_socket(events: list[Event]) -> None:
    phase, registered = RegistrationPhase.DETACHED, False
    for event in events:
        try:
            phase = advance(phase, event)
        except IllegalTransition:
            continue
        registered = isinstance(event, Accepted) or (
            registered and phase is RegistrationPhase.SERVING
        )
        assert registered == (phase is RegistrationPhase.SERVING)


@given(st.lists(st.sampled_from(EVENTS)))
def test_who_is_to_stop_never_serves_again(events: list[Event]) -> None:
    phase = RegistrationPhase.SERVING
    for event in [StopRequested(), *events]:
        try:
            phase = advance(phase, event)
        except IllegalTransition:
            continue
        assert phase in (RegistrationPhase.DRAINING, RegistrationPhase.STOPPED)


@pytest.mark.parametrize("event", EVENTS)
def test_stopped_is_the_end(event: Event) -> None:
    with pytest.raises(IllegalTransition):
        advance(RegistrationPhase.STOPPED, event)
