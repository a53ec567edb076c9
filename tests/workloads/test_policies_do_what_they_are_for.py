"""Each part of a policy at its work, in clusters so small that the right answer is plain."""

from __future__ import annotations

import pytest

from benchmarks.workloads_counted import Counted
from benchmarks.workloads_hints import Hints
from benchmarks.workloads_lending import Lending
from benchmarks.workloads_moves import Moves
from benchmarks.workloads_pods import Job
from benchmarks.workloads_simulation import Part
from tessera_schema.annotation_keys import CHECKPOINT_KEY, REBALANCE_KEY
from tessera_schema.plans import PlanKind
from tests.workloads.small import a_job, a_simulation, hami, serves, trains

HOUR_S = 3600.0


def next_to_one_that_rests_and_one_that_works(busy: str, *parts: Part) -> Counted:
    """Two cards, one of them used up by a pod, and a third pod that comes to one of them."""
    jobs = [
        *(
            a_job(name, serves(95 if name == busy else 2), hami(50000), kind="inference")
            for name in "ab"
        ),
        a_job("c", trains(0.5), hami(20000), at_s=HOUR_S),
    ]
    return a_simulation(jobs, parts, cards=2, hours=2).run()


@pytest.mark.parametrize("busy", ["a", "b"])
def test_with_hints_a_pod_comes_to_the_card_that_rests(busy: str) -> None:
    counted = next_to_one_that_rests_and_one_that_works(busy, Hints())
    assert counted.crowded < 0.05 * counted.wanted["training"]


def test_without_hints_it_is_chance() -> None:
    runs = [next_to_one_that_rests_and_one_that_works(busy) for busy in "ab"]
    crowded = sorted(run.crowded / run.wanted["training"] for run in runs)
    assert crowded[0] < 0.05
    assert crowded[1] > 0.5


def a_limited_pod_next_to(other: Job, *parts: Part) -> Counted:
    jobs = [a_job("a", trains(4), hami(20000, 40)), other]
    return a_simulation(jobs, parts, hours=2).run()


def test_idle_cores_are_lent() -> None:
    idle = a_job("b", serves(0), hami(20000, 60), kind="inference")
    alone, lent = a_limited_pod_next_to(idle), a_limited_pod_next_to(idle, Lending())
    assert alone.got["training"] == pytest.approx(0.4 * (2 * HOUR_S - 60), rel=0.01)
    assert lent.got["training"] > 0.9 * (2 * HOUR_S - 60)


def test_cores_in_use_are_not_lent() -> None:
    busy = a_job("b", trains(4), hami(20000, 60))
    alone, lent = a_limited_pod_next_to(busy), a_limited_pod_next_to(busy, Lending())
    assert lent.got["training"] == pytest.approx(alone.got["training"], rel=0.01)
    assert lent.missed == pytest.approx(alone.missed, rel=0.01)


def test_a_hard_limit_of_gpu_manager_stays_hard() -> None:
    asks = {"tencent.com/vcuda-core": 40, "tencent.com/vcuda-memory": 40}
    for notes, least, most in ({}, 0.39, 0.41), ({"tencent.com/vcuda-core-limit": "70"}, 0.65, 0.7):
        job = a_job("a", trains(4), asks, annotations=notes)
        counted = a_simulation([job], [Lending()], hours=2).run()
        assert least < counted.got["training"] / (2 * HOUR_S - 60) < most


def fragments(notes: dict[str, str]) -> list[Job]:
    """After half an hour two cards are held by a small pod each, and a pod waits for a card."""
    large = [a_job(name, trains(0.5), hami(50000)) for name in "ab"]
    facts = {"annotations": {CHECKPOINT_KEY: "600", **notes}, "checkpoint_s": 600.0}
    small = [a_job(name, trains(5, peak=40), hami(30000), **facts) for name in "cd"]
    return [*large, *small, a_job("w", trains(1), {"nvidia.com/gpu": 1}, at_s=HOUR_S)]


def test_small_pods_move_together_so_that_one_gets_a_whole_card() -> None:
    hints = Hints()
    without = a_simulation(fragments({}), cards=2, hours=7).run()
    counted = a_simulation(fragments({}), [hints, Moves(hints)], cards=2, hours=7).run()
    assert counted.plans == {PlanKind.DEFRAGMENT: 1}
    assert counted.moves == 1
    assert max(without.waits_s) > 3 * HOUR_S
    assert max(counted.waits_s) <= HOUR_S
    assert counted.finished == {"training": 5}
    assert 0 < counted.lost <= 0.4 * 600
    assert counted.gained == pytest.approx(counted.expected)


def test_a_pod_that_does_not_want_it_is_not_moved() -> None:
    hints = Hints()
    jobs = fragments({REBALANCE_KEY: "false"})
    counted = a_simulation(jobs, [hints, Moves(hints)], cards=2, hours=7).run()
    assert counted.moves == 0
