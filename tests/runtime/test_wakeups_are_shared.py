"""Work of equal periods is due at the same moments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_runtime.shared_wakeups import next_multiple


@pytest.mark.parametrize(
    ("now_s", "period_s", "due_s"),
    [(10.0, 1, 11), (10.3, 1, 11), (10.3, 0.5, 10.5), (10.5, 0.5, 11), (10.9, 2, 12)],
)
def test_work_is_due_at_multiples_of_its_period(
    now_s: float, period_s: float, due_s: float
) -> None:
    assert next_multiple(now_s, period_s) == due_s


def test_a_timer_that_ends_early_does_not_make_work_due_twice() -> None:
    assert next_multiple(10.9999, 1) == 12


@given(st.floats(0, 1e7), st.floats(0.01, 100))
def test_it_is_never_due_at_once_nor_much_later_than_a_period(
    now_s: float, period_s: float
) -> None:
    wait_s = next_multiple(now_s, period_s) - now_s
    assert 0 < wait_s <= period_s * 1.07
