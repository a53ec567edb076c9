import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.machines.allocation import (
    LEGAL,
    Bound,
    Ended,
    Event,
    Expired,
    IllegalTransition,
    OutcomeUnknown,
    Phase,
    Refused,
    Sent,
    advance,
)

EVENTS: list[Event] = [Sent(), Bound(), Refused(), OutcomeUnknown(), Expired(), Ended()]


def test_every_phase_can_be_reached_and_left() -> None:
    reached = {Phase.RESERVED} | set(LEGAL.values())
    assert reached == set(Phase)
    assert {phase for phase, _ in LEGAL} == set(Phase) - {Phase.RELEASED}


@given(st.lists(st.sampled_from(EVENTS)))
def test_time_alone_frees_only_what_was_never_sent(events: list[Event]) -> None:
    phase = Phase.RESERVED
    for event in events:
        before = phase
        try:
            phase = advance(phase, event)
        except IllegalTransition:
            continue
        if isinstance(event, Expired):
            assert before is Phase.RESERVED
        if isinstance(event, OutcomeUnknown):
            assert phase in (Phase.UNSETTLED, Phase.BOUND)


@pytest.mark.parametrize("event", EVENTS)
def test_released_is_the_end(event: Event) -> None:
    with pytest.raises(IllegalTransition):
        advance(Phase.RELEASED, event)
