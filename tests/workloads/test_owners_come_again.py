"""Pods of one owner are alike; pods of a Job are not moved."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial

import numpy as np
import pytest

from benchmarks.workloads_cluster import manifest, requested_percent
from benchmarks.workloads_hints import Hints
from benchmarks.workloads_made import MADE, make
from benchmarks.workloads_moves import Moves
from benchmarks.workloads_owners import RECURRING, with_controllers, with_owners
from benchmarks.workloads_pods import alone_s
from benchmarks.workloads_simulation import Simulation
from benchmarks.workloads_use import use_percent, with_pai_use
from tests.workloads.small import REGISTRY


@pytest.mark.parametrize("name", MADE)
def test_most_pods_have_an_owner_and_take_as_long_as_before(name: str) -> None:
    before = make(name, 4)
    after = with_owners(before, 4)
    owned = [job.owner for job in after.jobs if job.owner]
    assert len(owned) / len(after.jobs) == pytest.approx(RECURRING, abs=0.12)
    assert np.median(list(Counter(owned).values())) >= 5
    for old, new in zip(before.jobs, after.jobs, strict=True):
        assert (old.name, old.at_s, old.kind) == (new.name, new.at_s, new.kind)
        assert alone_s(new) == pytest.approx(alone_s(old))
        assert manifest(new).metadata.namespace == (new.owner or new.kind)


@pytest.mark.parametrize("pai", [False, True])
def test_pods_of_one_owner_request_the_same_and_want_about_as_much(pai: object) -> None:
    workload = with_owners(make("services", 2), 2)
    if pai:
        workload = with_pai_use(workload, partial(requested_percent, REGISTRY), 2)
    asks, use = defaultdict(set), defaultdict(list)
    for job in workload.jobs:
        if job.owner:
            asks[job.owner].add(tuple(job.limits.items()))
            use[job.owner].append(np.log(use_percent(job, workload.hours)))
    assert all(len(one) == 1 for one in asks.values())
    within = np.mean([np.std(one) for one in use.values()])
    among = np.std([np.mean(one) for one in use.values()])
    assert within < among / 2 if pai else within < among


def test_equal_seeds_have_equal_owners() -> None:
    one, same, other = (with_owners(make("mixed", 1, nodes=3), seed) for seed in (1, 1, 2))
    owners = [[job.owner for job in found.jobs] for found in (one, same, other)]
    assert owners[0] == owners[1]
    assert owners[0] != owners[2]


def test_trainings_of_jobs_are_left_alone() -> None:
    hints = Hints()
    workload = with_controllers(make("mixed", 2, nodes=4, hours=14))
    world = Simulation(workload, REGISTRY, [hints, Moves(hints)])
    counted = world.run()
    moved = [run.job.kind for run in world.came.values() if run.moves]
    assert set(moved) <= {"inference"}
    assert counted.moves >= len(moved)
    free = make("mixed", 2, nodes=4, hours=14)
    hints = Hints()
    assert Simulation(free, REGISTRY, [hints, Moves(hints)]).run().moves > counted.moves
