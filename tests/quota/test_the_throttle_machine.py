import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.machines.state_machine import IllegalTransition
from tessera_core.machines.throttle import (
    LEGAL,
    Event,
    Exceeded,
    GraceExpired,
    ReturnedBelow,
    ThrottlePhase,
    advance,
)

EVENTS: list[Event] = [Exceeded(), GraceExpired(), ReturnedBelow()]


def test_every_phase_can_be_reached_and_left() -> None:
    assert set(LEGAL.values()) == set(ThrottlePhase)
    assert all(LEGAL[phase, ReturnedBelow] is ThrottlePhase.WITHIN for phase in ThrottlePhase)


@given(st.lists(st.sampled_from(EVENTS)))
def test_nobody_is_throttled_without_grace(events: list[Event]) -> None:
    phase = ThrottlePhase.WITHIN
    for event in events:
        before = phase
        try:
            phase = advance(phase, event)
        except IllegalTransition:
            assert isinstance(event, GraceExpired)
            assert before is not ThrottlePhase.GRACE
            continue
        if phase is ThrottlePhase.THROTTLED:
            assert before in (ThrottlePhase.GRACE, ThrottlePhase.THROTTLED)


@pytest.mark.parametrize("phase", [ThrottlePhase.WITHIN, ThrottlePhase.THROTTLED])
def test_only_grace_can_expire(phase: ThrottlePhase) -> None:
    with pytest.raises(IllegalTransition):
        advance(phase, GraceExpired())
