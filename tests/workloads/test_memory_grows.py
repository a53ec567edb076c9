"""What is in use of granted memory, from a pod's first second on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.workloads_cluster import START_S
from benchmarks.workloads_growth import with_growth
from benchmarks.workloads_made import MADE, make
from benchmarks.workloads_seats import Seats
from benchmarks.workloads_simulation import Simulation
from tests.workloads.small import REGISTRY, a_job, a_simulation, hami, serves

GRANTED = 1000


def in_use(at_s: float, **facts: float) -> float:
    job = a_job("a", serves(10), hami(), **facts)
    seats = Seats(1, 1, [job])
    seats.memory[seats.sit(0, 0, 0.0, START_S)] = GRANTED
    return float(seats.memory_in_use(at_s).sum())


def test_it_is_all_there_at_once_unless_it_grows() -> None:
    assert in_use(START_S - 1, memory_used=0.5) == 0
    assert in_use(START_S, memory_used=0.5) == 500


def test_it_grows_evenly_to_all_of_it() -> None:
    facts = {"memory_used": 0.5, "memory_first": 0.2, "memory_grows_s": 3600.0}
    found = [in_use(START_S + at_s, **facts) for at_s in (0, 1800, 3600, 9999)]
    assert found == pytest.approx([100, 300, 500, 500])


def test_what_was_recorded_is_taken_as_it_is_up_to_what_was_granted() -> None:
    assert in_use(START_S, memory_mib=1e-4) == pytest.approx(1e-4 * (1 << 20))
    assert in_use(START_S, memory_mib=5.0) == GRANTED


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 9e4), st.floats(0, 9e4))
def test_it_never_shrinks_and_never_exceeds_the_grant(
    used: float, first: float, grows_s: float, at_s: float
) -> None:
    facts = {"memory_used": used, "memory_first": first, "memory_grows_s": grows_s}
    now, later = in_use(at_s, **facts), in_use(at_s + 60, **facts)
    assert 0 <= now <= later + 1e-9 <= GRANTED + 1e-6


@pytest.mark.parametrize("name", MADE)
def test_less_is_in_use_where_it_grows_and_nothing_else_changes(name: str) -> None:
    workload = make(name, 3, nodes=2, hours=8)
    constant, grows = (
        Simulation(one, REGISTRY, ()).run().figures()
        for one in (workload, with_growth(workload, 3))
    )
    assert grows["in_use"] < constant["in_use"] < constant["granted"]
    changed = {figure for figure in constant if constant[figure] != grows[figure]}
    assert changed == {"in_use"}


def test_equal_seeds_grow_alike() -> None:
    one, same = (with_growth(make("mixed", 1, nodes=2), 5) for _ in range(2))
    facts = [[(j.memory_first, j.memory_grows_s) for j in w.jobs] for w in (one, same)]
    assert facts[0] == facts[1]
    assert np.ptp([first for first, _ in facts[0]]) > 0


def test_what_is_measured_is_what_is_in_use() -> None:
    world = a_simulation([a_job("a", serves(10), hami(), memory_used=0.5)], hours=1)
    world.run()
    started = 1 - START_S / 3600
    assert world.counted.figures()["in_use"] == pytest.approx(
        world.counted.figures()["granted"] / 2 * started
    )
