"""Jobs that are promised no cores, in the simulated cluster."""

from __future__ import annotations

import pytest

from benchmarks.workloads_classes import with_best_effort
from benchmarks.workloads_counted import Counted
from benchmarks.workloads_lending import Lending
from benchmarks.workloads_made import MADE, make
from benchmarks.workloads_pods import Job, Serves, Works
from tessera_schema.annotation_keys import BEST_EFFORT, CLASS_KEY
from tests.workloads.small import REGISTRY, a_job, a_simulation, hami, serves, trains

REST = {CLASS_KEY: BEST_EFFORT}
RUNS_S = 2 * 3600 - 60


def next_to(*owners: Job) -> Counted:
    """Two hours of a job that wants all of the card's time and is promised none."""
    job = a_job("rest", trains(9), hami(20000, 50), kind="batch", annotations=REST)
    return a_simulation([*owners, job], [Lending()], hours=2).run()


@pytest.mark.parametrize("owners", [0, 1])
def test_it_has_all_of_a_card_that_is_free_or_whose_owner_rests(owners: int) -> None:
    idle = a_job("owner", serves(0), hami(20000, 90), kind="inference")
    assert next_to(*[idle] * owners).got["batch"] > 0.95 * RUNS_S


def test_it_takes_nothing_of_an_owner_that_works() -> None:
    busy = a_job("owner", trains(9), hami(20000, 95))
    counted = next_to(busy)
    assert counted.got["training"] > 0.93 * RUNS_S
    assert counted.got["batch"] < 0.06 * RUNS_S
    assert counted.missed < 0.02 * counted.owed


def test_without_lending_it_has_next_to_nothing() -> None:
    job = a_job("rest", trains(9), hami(20000, 50), kind="batch", annotations=REST)
    assert a_simulation([job], hours=2).run().got["batch"] == pytest.approx(0.01 * RUNS_S, rel=0.1)


@pytest.mark.parametrize("name", MADE)
def test_only_work_on_a_part_of_a_card_is_best_effort(name: str) -> None:
    made = make(name, 1)
    assert with_best_effort(made, REGISTRY, 0.0, 1).jobs == made.jobs
    found = with_best_effort(made, REGISTRY, 0.5, 1)
    assert found.jobs == with_best_effort(made, REGISTRY, 0.5, 1).jobs
    chosen = [job for job in found.jobs if CLASS_KEY in job.annotations]
    assert 0.1 < len(chosen) / sum(isinstance(job.wants, Works) for job in made.jobs) < 0.6
    assert all(isinstance(job.wants, Works) and job.kind != "notebook" for job in chosen)
    assert {"nvidia.com/gpu": 1} not in [job.limits for job in chosen], "a whole card"
    kinds = {job.group: CLASS_KEY in job.annotations for job in found.jobs if job.group}
    by_group = [(job.group, CLASS_KEY in job.annotations) for job in found.jobs if job.group]
    assert all(kinds[group] is chosen_ for group, chosen_ in by_group)
    assert any(isinstance(job.wants, Serves) for job in found.jobs) or name == "research"
