import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.machines.allocation import (
    LEGAL,
    AllocationPhase,
    BindingRefused,
    Bound,
    Ended,
    Event,
    Expired,
    OutcomeUnknown,
    Sent,
    advance,
)
from tessera_core.machines.state_machine import IllegalTransition

EVENTS: list[Event] = [Sent(), Bound(), BindingRefused(), OutcomeUnknown(), Expired(), Ended()]


def test_every_phase_can_be_reached_and_left() -> None:
    reached = {AllocationPhase.RESERVED} | set(LEGAL.values())
    assert reached == set(AllocationPhase)
    assert {phase for phase, _ in LEGAL} == set(AllocationPhase) - {AllocationPhase.RELEASED}


@given(st.lists(st.sampled_from(EVENTS)))
def test_time_alone_frees_only_what_was_never_sent(events: list[Event]) -> None:
    phase = AllocationPhase.RESERVED
    for event in events:
        before = phase
        try:
            phase = advance(phase, event)
        except IllegalTransition:
            continue
        if isinstance(event, Expired):
            assert before is AllocationPhase.RESERVED
        if isinstance(event, OutcomeUnknown):
            assert phase in (AllocationPhase.UNSETTLED, AllocationPhase.BOUND)


@pytest.mark.parametrize("event", EVENTS)
def test_released_is_the_end(event: Event) -> None:
    with pytest.raises(IllegalTransition):
        advance(AllocationPhase.RELEASED, event)
