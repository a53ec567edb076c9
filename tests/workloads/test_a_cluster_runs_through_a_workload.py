"""Pods come, are placed, work and end; what cannot be is not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.workloads_cluster import START_S, TICK_S, Unreadable
from benchmarks.workloads_lending import Lending
from benchmarks.workloads_made import MADE, make
from benchmarks.workloads_pods import Works
from benchmarks.workloads_run import POLICIES, run
from benchmarks.workloads_simulation import Simulation
from tessera_core.fleet.arrays import Floats
from tests.workloads.small import REGISTRY, Witness, a_job, a_simulation, hami, serves, trains

HOUR_S = 3600.0


def test_work_alone_takes_its_time() -> None:
    world = a_simulation([a_job("a", trains(1), hami())], hours=2)
    counted = world.run()
    assert counted.got["training"] == pytest.approx(HOUR_S)
    assert counted.finished == {"training": 1}
    assert counted.stretches == [pytest.approx(1, abs=0.03)]
    assert counted.waits_s == [0]
    assert not world.running


def test_a_limit_holds_back_and_what_is_wanted_is_counted_as_not_given() -> None:
    counted = a_simulation([a_job("a", trains(1), hami(cores=50))], hours=1).run()
    assert counted.got["training"] == pytest.approx((HOUR_S - START_S) / 2)
    assert counted.figures()["contention"] == pytest.approx(50)
    assert counted.crowded == 0
    assert counted.missed == 0


def test_pauses_pass_by_the_clock_and_bursts_by_work() -> None:
    wants = Works(100, (600.0, 600.0), (0.0, 1200.0))
    full, half = (
        a_simulation([a_job("a", wants, hami(cores=cores))], hours=2).run() for cores in (0, 50)
    )
    assert full.stretches == [pytest.approx(1, abs=0.05)]
    assert half.stretches == [pytest.approx((60 + 1200 + 2400) / (60 + 1200 + 1200), abs=0.05)]


def test_a_pod_without_room_waits_until_another_ends() -> None:
    jobs = [a_job(name, trains(1), hami(60000)) for name in "ab"]
    counted = a_simulation(jobs, hours=4).run()
    assert counted.finished == {"training": 2}
    assert counted.waits_s[0] == 0
    assert counted.waits_s[1] == pytest.approx(HOUR_S, abs=3 * TICK_S)


def test_a_card_is_idle_while_nobody_holds_it() -> None:
    counted = a_simulation([a_job("a", trains(1), hami())], cards=2, hours=4).run()
    assert counted.figures()["idle"] == pytest.approx(100 * 7 / 8, abs=1)


def test_one_that_finds_no_place_until_the_end_is_counted_with_its_wait() -> None:
    counted = a_simulation([a_job("a", trains(1), hami(90000))], hours=2).run()
    assert counted.unplaced == 1
    assert counted.waits_s == [2 * HOUR_S - TICK_S]


def test_what_a_service_does_not_get_is_lost_and_it_is_late() -> None:
    jobs = [a_job(name, serves(80), hami(), kind="inference") for name in "ab"]
    counted = a_simulation(jobs, hours=2).run()
    assert counted.figures()["late"] == 100
    assert counted.crowded == pytest.approx(0.62 * (2 * HOUR_S - START_S))


def test_a_group_finishes_with_its_last_pod() -> None:
    jobs = [a_job(f"a{n}", trains(n + 1), hami(), group="g", kind="batch") for n in range(2)]
    assert a_simulation(jobs, cards=2, hours=2).run().finished == {}
    assert a_simulation(jobs, cards=2, hours=3).run().finished == {"batch": 1}


class Mover:
    """Moves the pods that run at a moment."""

    def __init__(self, at_s: float) -> None:
        self.at_s = at_s

    def before(self, world: Simulation, wants: Floats) -> None:
        del wants
        if world.now == self.at_s:
            world.move(next(iter(world.running.values())))

    def after(self, world: Simulation, wants: Floats, got: Floats) -> None: ...


def test_a_service_that_moves_is_late_until_it_runs_again() -> None:
    jobs = [a_job("a", serves(50), hami(), kind="inference")]
    still, moved = (
        a_simulation(jobs, hours=1).run(),
        a_simulation(jobs, [Mover(1800)], hours=1).run(),
    )
    assert still.late_s == 0
    assert moved.late_s == pytest.approx(START_S, abs=TICK_S)
    assert moved.wanted["inference"] == pytest.approx(still.wanted["inference"], abs=TICK_S)
    assert moved.lost == 0


def test_a_pod_that_moves_loses_its_work_since_the_last_checkpoint() -> None:
    world = a_simulation(
        [a_job("a", trains(1), hami(), checkpoint_s=1800.0)], [Mover(2400)], hours=3
    )
    counted = world.run()
    assert counted.moves == 1
    assert counted.lost == pytest.approx(2400 - START_S - 1800)
    assert counted.got["training"] == pytest.approx(HOUR_S + counted.lost)
    assert counted.finished == {"training": 1}


def test_a_manifest_that_is_not_admitted_is_named() -> None:
    with pytest.raises(Unreadable, match="pod odd: "):
        a_simulation([a_job("odd", trains(1), {"nvidia.com/gpu": -1})]).run()


@pytest.mark.parametrize("name", MADE)
def test_nobody_gets_more_than_there_is_or_than_limits_and_loans_allow(name: str) -> None:
    workload, witness = make(name, 7, nodes=2, hours=8), Witness()
    counted = Simulation(workload, REGISTRY, [witness, Lending()]).run()
    got = np.array(witness.got)
    assert got.sum() > 0
    assert (got <= np.array(witness.wanted) + 1e-6).all()
    assert (got <= np.array(witness.most) + 1e-6).all()
    assert (np.array(witness.most) <= 100 + 1e-6).all()
    assert (got.sum(2) <= 100 + 1e-6).all()
    assert witness.overgranted == 0
    assert got.sum() * TICK_S / 100 == pytest.approx(sum(counted.got.values()))


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_seeds_give_equal_runs(policy: str) -> None:
    figures = [run(make("mixed", 3, nodes=2, hours=5), REGISTRY, policy).figures for _ in range(2)]
    assert figures[0] == figures[1]


def together(name: str, policy: str) -> tuple[float, float]:
    """Work and contention, summed over two seeds."""
    runs = [run(make(name, seed, nodes=2, hours=10), REGISTRY, policy) for seed in range(2)]
    work, contention = (
        sum(one.figures[figure] for one in runs) for figure in ("work", "contention")
    )
    return work, contention


@pytest.mark.parametrize("name", MADE)
def test_lending_loses_no_throughput_and_holds_less_back(name: str) -> None:
    work, contention = together(name, "nothing")
    work_lent, contention_lent = together(name, "lending")
    assert work_lent >= work * 0.995
    assert contention_lent < contention
