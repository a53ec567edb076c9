"""A hook that counts as the driver does is corrected seldom, one that is wrong at once."""

from hypothesis import given
from hypothesis import strategies as st

from tessera_core.node.correction_pace import MOST_SKIPPED, SETTLING, TOLERATED_NS, CorrectionPace

MS = 1_000_000


class Corrected:
    """A hook that is corrected whenever it is due."""

    def __init__(self) -> None:
        self.pace = CorrectionPace()
        self.error_ns = 0
        self.waited = 0
        """Answers since the last correction."""

    def answer(self, error_ns: int = 0) -> bool:
        """Whether it is corrected by an answer until which the figures drew so far apart."""
        self.error_ns += error_ns
        self.waited += 1
        self.pace = self.pace.after(self.error_ns)
        if self.pace.due:
            self.pace, self.error_ns, self.waited = self.pace.corrected(), 0, 0
            return True
        return False


def test_each_answer_corrects_a_hook_that_has_just_begun() -> None:
    hook = Corrected()
    assert all(hook.answer() for _ in range(SETTLING))
    assert hook.pace.settled


def test_corrections_of_a_hook_that_is_right_come_apart() -> None:
    hook = Corrected()
    due = [hook.answer(MS) for _ in range(SETTLING + 10)]
    assert due[SETTLING:] == [False, True, False, False, False, True, False, False, False, True]


def test_an_error_is_corrected_at_once_and_followed_closely() -> None:
    hook = Corrected()
    for _ in range(3 * SETTLING):
        hook.answer()
    assert hook.answer(-TOLERATED_NS - 1)
    assert all(hook.answer() for _ in range(SETTLING // 2))
    assert not hook.answer()


def test_the_next_answer_is_urgent_at_first_and_after_two_errors() -> None:
    hook = Corrected()
    for answer in range(2 * SETTLING):
        assert hook.pace.urgent == (answer < SETTLING // 2)
        hook.answer()
    hook.answer(TOLERATED_NS + 1)
    assert not hook.pace.urgent
    hook.answer(TOLERATED_NS + 1)
    assert hook.pace.urgent


def test_small_errors_that_add_up_are_corrected() -> None:
    hook = Corrected()
    for _ in range(3 * SETTLING):
        hook.answer()
    assert any(hook.answer(15 * MS) for _ in range(3))


@given(st.lists(st.integers(-60 * MS, 60 * MS) | st.integers(-5 * MS, 5 * MS), max_size=200))
def test_what_is_not_corrected_stays_small_and_is_not_old(errors: list[int]) -> None:
    hook = Corrected()
    for error_ns in errors:
        hook.answer(error_ns)
        assert abs(hook.error_ns) <= TOLERATED_NS
        assert hook.waited <= MOST_SKIPPED
