"""What the second act of the demo was seen to do decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tessera_demo.acts import resizing
from tessera_demo.acts.lending_samples import CounterPair, Shares, Turn, lending_promises, turns

SHARES = Shares(owner=50, borrower=30)
STEP_S = 0.02
KERNEL_NS = 5_000_000


def samples(
    seconds: float, busy: Callable[[float], bool], borrower: Callable[[float], float]
) -> list[CounterPair]:
    """An owner that takes its half whenever it is busy, and a neighbour with so many percent."""
    made, launches, other = [CounterPair(0, 0, 0, 0)], 0, 0.0
    for i in range(1, round(seconds / STEP_S)):
        at_s = i * STEP_S
        launches += 2 if busy(at_s) else 0
        other += borrower(at_s) / 100 * STEP_S * 1e9
        made.append(CounterPair(at_s, launches, launches * KERNEL_NS, int(other)))
    return made


def by_turns(at_s: float) -> bool:
    return at_s % 6 >= 3


def lent(at_s: float, late_s: float = 0.4) -> float:
    """All while the owner rests, half when it works, and as it was for a while after each turn."""
    return 50 if by_turns(max(at_s - late_s, 0)) else 95


def test_both_directions_are_found_and_hold() -> None:
    seen = turns(samples(9.5, by_turns, lent))
    assert [turn.wakes for turn in seen] == [True, False]
    promises = lending_promises(seen, SHARES, slack=10)
    assert all(promise.kept for promise in promises)
    assert "neighbour 95 % before, 50 % after" in promises[1].measured


def test_a_card_has_no_more_than_it_has() -> None:
    seen = turns(samples(9.5, by_turns, lambda at_s: 1.2 * lent(at_s)))
    wakes, rests = seen
    assert (wakes.before, rests.borrower) == pytest.approx((100, 100), abs=2)
    assert (wakes.borrower, wakes.owner) == pytest.approx((55, 45), abs=2)
    assert all(promise.kept for promise in lending_promises(seen, SHARES, slack=10))


@pytest.mark.parametrize(
    ("borrower", "kept"),
    [
        (lambda _: 30.0, [False, True]),
        (lambda _: 95.0, [True, False]),
        (lambda at_s: lent(at_s, late_s=2.5), [False, False]),
    ],
    ids=["never lent", "never given back", "too late"],
)
def test_what_was_not_so_is_reported(borrower: Callable[[float], float], kept: list[bool]) -> None:
    promises = lending_promises(turns(samples(9.5, by_turns, borrower)), SHARES, slack=10)
    assert [promise.kept for promise in promises] == kept
    assert all(promise.measured for promise in promises if not promise.kept)


def test_one_good_turn_is_enough() -> None:
    bad, good = (
        Turn(wakes=True, before=95, borrower=95, owner=10),
        Turn(wakes=True, before=95, borrower=48, owner=50),
    )
    assert [p.kept for p in lending_promises([bad, good], SHARES, slack=10)] == [False, True]


@pytest.mark.parametrize("seconds", [0.02, 2.0, 4.5])
def test_what_was_not_observed_whole_is_no_turn(seconds: float) -> None:
    assert turns(samples(seconds, by_turns, lent)) == []
    assert not any(p.kept for p in lending_promises((), SHARES, slack=10))


def said(*answers: tuple[int, int]) -> list[dict[str, int]]:
    return [{"mib": 4000, "result": result, "total_mib": total} for result, total in answers]


@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        ([(2, 3000), (0, 5000), (2, 3500)], True),
        ([(2, 3000), (0, 5000)], False),
        ([(2, 3000), (0, 5000), (2, 5000)], False),
        ([(0, 3000), (0, 5000), (2, 3500)], False),
        ([], False),
    ],
)
def test_a_live_resize_is_what_the_driver_answered(
    answers: list[tuple[int, int]],
    kept: bool,  # noqa: FBT001  (a parameter of the table)
) -> None:
    assert resizing.resize_promise(said(*answers), (3000, 5000, 3500)).kept is kept
