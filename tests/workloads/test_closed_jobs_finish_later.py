"""Synchronous jobs that are squeezed take longer than those of an open card; alone they do not."""

from __future__ import annotations

import pytest

from benchmarks.workloads_cards import CardModel
from benchmarks.workloads_counted import Counted
from benchmarks.workloads_pods import Job
from benchmarks.workloads_simulation import Simulation
from tests.workloads.small import REGISTRY, a_job, a_workload, hami, serves, trains

CLOSED = CardModel(closed=True)
HALF = a_job("a", trains(1, peak=50), hami())
GREEDY = a_job("b", serves(100), hami(), kind="inference")


def ran(*jobs: Job, closed: bool) -> Counted:
    workload = a_workload(jobs, hours=4)
    return Simulation(workload, REGISTRY, (), CardModel(closed=closed)).run()


def test_alone_it_takes_its_time() -> None:
    assert ran(HALF, closed=True).stretches == ran(HALF, closed=False).stretches


def test_next_to_one_that_wants_all_it_takes_half_as_long_again() -> None:
    open_card, closed = (ran(HALF, GREEDY, closed=closed) for closed in (False, True))
    assert open_card.stretches == [pytest.approx(1.02, abs=0.05)]
    assert closed.stretches == [pytest.approx(1.5, abs=0.08)]
    assert closed.figures()["missed"] == 0


def test_what_it_misses_of_its_granted_cores_is_counted() -> None:
    promised = a_job("a", trains(1, peak=50), hami(cores=50))
    counted = ran(promised, GREEDY, closed=True)
    assert counted.missed / counted.owed == pytest.approx(1 / 3, abs=0.03)
