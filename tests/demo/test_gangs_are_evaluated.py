"""What the fourth act was seen to do decides: each gang whole, one after the other."""

from __future__ import annotations

import pytest

from tessera_demo.acts.gang_starts import GangMoment, gang_promises

STEP_S = 0.02


def moments(*placed: tuple[int, int], each_s: float = STEP_S) -> list[GangMoment]:
    return [GangMoment(i * each_s, both) for i, both in enumerate(placed)]


def results(seen: list[GangMoment]) -> list[bool]:
    return [promise.kept for promise in gang_promises(seen, 3)]


@pytest.mark.parametrize("turned", [False, True], ids=["first", "second"])
def test_one_whole_then_the_other_is_as_promised(turned: bool) -> None:  # noqa: FBT001  (a parameter of the table)
    seen = [(0, 0), (1, 0), (3, 0), (3, 0), (2, 0), (0, 0), (0, 2), (0, 3)]
    assert results(moments(*((b, a) if turned else (a, b) for a, b in seen))) == [True, True]


def test_gangs_that_hold_cards_of_each_other_are_reported() -> None:
    whole, part = gang_promises(moments((0, 0), (2, 1), (2, 1), each_s=5), 3)
    assert not whole.kept
    assert not part.kept
    assert "0 of 2 started whole" in whole.measured


def test_a_gang_that_is_partly_there_for_long_is_reported() -> None:
    seen = moments((0, 0), (2, 0), (2, 0), (3, 0), (0, 3), each_s=1.5)
    assert results(seen) == [True, False]


def test_a_gang_that_ends_member_by_member_is_no_partial_start() -> None:
    seen = moments((3, 0), (2, 0), (1, 0), (0, 0), (0, 3), each_s=5)
    assert results(seen) == [True, True]


def test_without_a_moment_no_promise_holds() -> None:
    assert results([]) == [False, False]
