"""No policy does better than what is possible, and each bound allows more than the one before."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.workloads_bounds import BOUNDS, POSSIBLE
from benchmarks.workloads_cards import OPEN, CardModel
from benchmarks.workloads_made import MADE, make
from benchmarks.workloads_pods import Works
from benchmarks.workloads_run import POLICIES, Outcome, run, run_bound
from benchmarks.workloads_tables import possible_percents
from tests.workloads.small import REGISTRY, a_job, a_workload, hami, trains

CARDS, SEATS = 4, 5
PLACED = [bound for bound in BOUNDS.values() if bound.placed]
CLOSED = CardModel(closed=True)
MODELS = st.sampled_from([OPEN, CLOSED])
numbers = st.lists(
    st.one_of(st.just(0.0), st.floats(0.1, 100)), min_size=CARDS * SEATS, max_size=CARDS * SEATS
)


@given(numbers, numbers, MODELS)
def test_with_the_same_pods_in_the_same_places_each_gives_more_than_the_one_before(
    wanted: list[float], shares: list[float], model: CardModel
) -> None:
    wants = np.array(wanted).reshape(CARDS, SEATS)
    promised = np.array(shares).reshape(CARDS, SEATS)
    promised /= np.maximum(promised.sum(1, keepdims=True) / 100, 1)
    loads = np.zeros(wants.shape, np.int64)
    workload, room = a_workload([], nodes=2, cards=2), model.capacity(wants, loads)
    limits = np.where(promised > 0, promised, 100)
    given_by = [model.divide(wants, limits, loads, wants > 50)]
    given_by += [bound.divide(wants, promised, room, workload) for bound in PLACED]
    given_by.append(BOUNDS["O5"].divide(wants, promised, room, workload))
    sums = [got.sum() for got in given_by]
    assert all(one <= other + 1e-6 for one, other in pairwise(sums))
    for got in given_by:
        assert (got <= wants + 1e-6).all()
        assert (got >= -1e-9).all()


@given(numbers, numbers)
def test_perfect_lending_gives_granted_cores_first(
    wanted: list[float], shares: list[float]
) -> None:
    wants = np.array(wanted).reshape(CARDS, SEATS)
    promised = np.array(shares).reshape(CARDS, SEATS)
    promised /= np.maximum(promised.sum(1, keepdims=True) / 80, 1)
    got = BOUNDS["O1"].divide(wants, promised, np.full(CARDS, 90.0), a_workload([], cards=4))
    assert (got >= np.minimum(wants, promised) - 1e-6).all()


jobs = st.lists(
    st.tuples(st.floats(0.1, 2), st.floats(20, 100), st.sampled_from([0, 30, 60]),
              st.integers(0, 3600)),
    min_size=1, max_size=12,
)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(jobs, st.sampled_from(["nothing", "lending", "hints"]), MODELS)
def test_no_policy_does_more_of_any_work_than_an_endless_cluster(
    found: list[tuple[float, float, int, int]], policy: str, model: CardModel
) -> None:
    pods = [
        a_job(f"j{n}", trains(hours, peak), hami(30000, cores), at_s=float(at_s))
        for n, (hours, peak, cores, at_s) in enumerate(sorted(found, key=lambda job: job[3]))
    ]
    workload = a_workload(pods, cards=2, hours=3)
    best = run_bound(workload, REGISTRY, "O5").figures
    got = run(workload, REGISTRY, policy, model=model).figures
    assert all(isinstance(pod.wants, Works) for pod in pods)
    assert got["work"] <= best["work"] + 1e-9
    assert got["finished"] <= best["finished"]
    assert got["contention"] >= best["contention"] == 0
    assert got["wait_mean"] >= best["wait_mean"] == 0


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("model", [OPEN, CLOSED])
def test_no_policy_exceeds_what_is_possible(name: str, model: CardModel) -> None:
    workload = make(name, 4, nodes=2, hours=6)
    best = run_bound(workload, REGISTRY, POSSIBLE, model=model).figures
    for policy in POLICIES:
        got = run(workload, REGISTRY, policy, model=model).figures
        assert got["work"] <= best["work"]
        assert got["contention"] >= best["contention"]
        assert got["wait_mean"] >= best["wait_mean"] == 0


def test_the_part_of_the_possible_is_the_way_from_nothing_to_the_bound() -> None:
    base, half, best = ([Outcome(1, 1, {"work": work}, {}, 0)] for work in (10, 15, 20))
    assert possible_percents("work", base, half, best) == [50]
    assert possible_percents("work", base, base, base) == []
