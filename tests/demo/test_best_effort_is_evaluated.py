"""What the fifth act was seen to do decides: by the GPU time that hooks counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tessera_demo.acts.departures import best_effort_promises, departures
from tessera_demo.acts.lending_samples import CounterPair

STEP_S = 0.02
WAKES_S = 3.0


def samples(rest: Callable[[float], float]) -> list[CounterPair]:
    """An owner that launches from the third second on, and another one with so many percent."""
    made, launches, owner, other = [CounterPair(0, 1, 0, 0)], 1, 0.0, 0.0
    for i in range(1, round(6 / STEP_S)):
        at_s = i * STEP_S
        if at_s >= WAKES_S or i == 1:
            launches += 1
            owner += STEP_S * 0.95e9
        other += rest(at_s) / 100 * STEP_S * 1e9
        made.append(CounterPair(at_s, launches, int(owner), int(other)))
    return made


def off_after(seconds: float) -> Callable[[float], float]:
    return lambda at_s: 99 if at_s < WAKES_S + seconds else 1


@pytest.mark.parametrize(("seconds", "kept"), [(0.1, True), (0.6, False)])
def test_how_long_it_stays_decides(seconds: float, kept: bool) -> None:  # noqa: FBT001  (a parameter of the table)
    (found,) = departures(samples(off_after(seconds)))
    assert found.off_s == pytest.approx(seconds, abs=2 * STEP_S)
    lives, leaves = best_effort_promises([found])
    assert lives.kept
    assert (leaves.kept, leaves.late) == (kept, not kept)


def test_one_that_never_leaves_is_reported() -> None:
    lives, leaves = best_effort_promises(departures(samples(lambda _: 50)))
    assert not lives.kept
    assert not leaves.kept
    assert not leaves.late
    assert leaves.measured == "it always had something"


def test_its_floor_counts_as_nothing() -> None:
    (found,) = departures(samples(lambda at_s: 99 if at_s < WAKES_S else 2))
    assert found.off_s == pytest.approx(0, abs=2 * STEP_S)


def test_the_best_launch_counts() -> None:
    seen = [*departures(samples(off_after(1.0))), *departures(samples(off_after(0.1)))]
    assert [promise.kept for promise in best_effort_promises(seen)] == [True, True]


def test_without_a_launch_no_promise_holds() -> None:
    assert [(p.kept, p.late) for p in best_effort_promises(())] == [(False, False)] * 2
    assert departures(samples(off_after(0))[:100]) == []
