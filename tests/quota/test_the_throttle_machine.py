import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.machines.throttle import (
    LEGAL,
    Event,
    Exceeded,
    GraceExpired,
    IllegalTransition,
    Phase,
    ReturnedBelow,
    advance,
)

EVENTS: list[Event] = [Exceeded(), GraceExpired(), ReturnedBelow()]


def test_every_phase_can_be_reached_and_left() -> None:
    assert set(LEGAL.values()) == set(Phase)
    assert all(LEGAL[phase, ReturnedBelow] is Phase.WITHIN for phase in Phase)


@given(st.lists(st.sampled_from(EVENTS)))
def test_nobody_is_throttled_without_grace(events: list[Event]) -> None:
    phase = Phase.WITHIN
    for event in events:
        before = phase
        try:
            phase = advance(phase, event)
        except IllegalTransition:
            assert isinstance(event, GraceExpired)
            assert before is not Phase.GRACE
            continue
        if phase is Phase.THROTTLED:
            assert before in (Phase.GRACE, Phase.THROTTLED)


@pytest.mark.parametrize("phase", [Phase.WITHIN, Phase.THROTTLED])
def test_only_grace_can_expire(phase: Phase) -> None:
    with pytest.raises(IllegalTransition):
        advance(phase, GraceExpired())
