"""A workload of PAI's use has the published median and mean, and keeps all but what pods want."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.workloads_cluster import requested_percent
from benchmarks.workloads_made import MADE, make
from benchmarks.workloads_pods import Serves, alone_s
from benchmarks.workloads_use import HIGHEST, pai_percent, use_percent, with_pai_use
from tests.workloads.small import REGISTRY

requested = partial(requested_percent, REGISTRY)


def test_the_distribution_has_the_published_figures() -> None:
    found = pai_percent(np.linspace(0, 1, 100_001))
    assert np.median(found) == pytest.approx(1.5)
    assert found.mean() == pytest.approx(10.5, abs=0.05)
    assert (found < 10).mean() == pytest.approx(0.75, abs=0.001)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9))
def test_more_pods_use_less_than_a_larger_number(parts: list[float]) -> None:
    found = pai_percent(np.sort(parts))
    assert (np.diff(found) >= 0).all()
    assert 0 < found[0] <= found[-1] < 100


@pytest.mark.parametrize("name", MADE)
def test_pods_of_a_workload_use_what_was_published(name: str) -> None:
    workload = with_pai_use(make(name, 5), requested, 5)
    use = np.array([use_percent(job, workload.hours) for job in workload.jobs])
    assert np.median(use) == pytest.approx(1.5, rel=0.05)
    assert use.mean() == pytest.approx(10.5, rel=0.02)
    below = use < [requested(job) for job in workload.jobs]
    assert below.mean() == pytest.approx(0.979, abs=0.01)


@settings(max_examples=20)
@given(st.sampled_from(list(MADE)), st.integers(0, 99))
def test_when_pods_come_what_they_request_and_how_long_they_take_stays(
    name: str, seed: int
) -> None:
    before = make(name, seed, nodes=2, hours=10)
    after = with_pai_use(before, requested, seed)
    for old, new in zip(before.jobs, after.jobs, strict=True):
        assert (old.name, old.at_s, old.limits) == (new.name, new.at_s, new.limits)
        life_s = [min(alone_s(job), job.stays_s) for job in (old, new)]
        assert life_s[0] == pytest.approx(life_s[1])
        if isinstance(new.wants, Serves):
            assert 0 <= new.wants.percents.min() <= new.wants.percents.max() <= 100
        else:
            mean = use_percent(new, after.hours)
            assert mean * 0.999 <= new.wants.peak_percent <= 100
            assert new.kind == "notebook" or new.wants.peak_percent <= mean * HIGHEST * 1.001


def test_equal_seeds_want_the_same_and_others_do_not() -> None:
    before = make("mixed", 3, nodes=2, hours=10)
    one, same, other = (with_pai_use(before, requested, seed) for seed in (3, 3, 4))
    use = [[use_percent(job, 10) for job in found.jobs] for found in (one, same, other)]
    assert use[0] == use[1]
    assert use[0] != use[2]


def test_load_multiplies_arrivals_and_less_nodes_thin_them_out() -> None:
    usual, half, double = (
        len(make("mixed", 2, nodes=20, hours=40, load=load).jobs) for load in (1, 0.5, 2)
    )
    assert half / usual == pytest.approx(0.5, abs=0.06)
    assert double / usual == pytest.approx(2, abs=0.2)
    names = {job.name for job in make("mixed", 2, hours=40).jobs}
    assert {job.name for job in make("mixed", 2, nodes=10, hours=40).jobs} < names
