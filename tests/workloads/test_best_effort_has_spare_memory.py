"""Best-effort pods on memory that owners do not use, in the simulated cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.workloads_lending import Lending
from benchmarks.workloads_memory_ends import SpareMemory
from benchmarks.workloads_pods import Job
from benchmarks.workloads_simulation import Simulation
from tessera_schema.annotation_keys import BEST_EFFORT, CLASS_KEY
from tests.workloads.small import REGISTRY, a_job, a_workload, hami, serves, trains

REST = {CLASS_KEY: BEST_EFFORT}
HOUR_S = 3600


def run(jobs: list[Job], *, spare: bool = True, hours: float = 4) -> Simulation:
    """One card of 80 GiB."""
    workload = replace(a_workload(jobs, hours=hours), spare_memory=spare)
    world = Simulation(workload, REGISTRY, [SpareMemory(), Lending()])
    world.run()
    return world


def owner(name: str = "owner", mib: int = 60000, **facts: Any) -> Job:
    facts = {"kind": "inference", "memory_used": 0.2, **facts}
    return a_job(name, serves(10), hami(mib, 20), **facts)


def best_effort(name: str = "rest", mib: int = 40000, at_s: float = 0.0, **facts: Any) -> Job:
    facts = {"kind": "batch", "annotations": REST, **facts}
    return a_job(name, trains(9), hami(mib), at_s=at_s, **facts)


def test_it_starts_when_the_owner_is_known() -> None:
    world = run([owner(), best_effort()])
    assert world.counted.unplaced == 0
    assert HOUR_S <= world.counted.waits_s[1] < HOUR_S + 300
    assert world.counted.ended == world.counted.over_s == 0


def test_without_it_memory_is_granted_and_the_pod_waits() -> None:
    assert run([owner(), best_effort()], spare=False).counted.unplaced == 1


def test_nobody_ends_for_an_owner_that_comes_while_the_card_has_enough() -> None:
    jobs = [best_effort("old", 30000), best_effort("young", 30000, 600),
            owner(at_s=1200, mib=45000)]  # fmt: skip
    world = run(jobs, hours=1)
    assert len(world.running) == 3
    assert world.counted.ended == world.counted.over_s == 0
    assert world.counted.waits_s == pytest.approx([0, 0, 0], abs=60)


def test_the_youngest_ends_where_an_owner_uses_what_it_was_granted() -> None:
    jobs = [best_effort("old", 30000), best_effort("young", 30000, 600),
            owner(at_s=1200, mib=45000, memory_used=1.0)]  # fmt: skip
    world = run(jobs, hours=1)
    assert [run.job.name for run in world.running.values()] == ["old", "owner"]
    assert world.counted.ended == 1
    assert world.counted.again_s > 0
    assert world.counted.over_s == 60
    assert world.spare is not None
    assert world.spare.closed(HOUR_S).all()


def test_an_owner_that_grows_beyond_what_it_counts_with_has_its_memory() -> None:
    grows = owner(mib=78000, memory_used=1.0, memory_first=0.05, memory_grows_s=2.2 * HOUR_S)
    world = run([grows, best_effort(mib=20000, memory_used=1.0)])
    assert [run.job.name for run in world.running.values()] == ["owner"]
    assert world.counted.ended == 1
    assert world.counted.over_s == 60


def test_best_effort_pods_have_what_others_of_them_leave() -> None:
    """Each uses a fifth of 30000 MiB: two are lent all of it, a third what these leave."""
    jobs = [best_effort(str(n), 30000, memory_used=0.2) for n in range(4)]
    counted = run(jobs).counted
    assert counted.waits_s[:2] == [0, 0]
    assert all(600 <= wait <= 1500 for wait in counted.waits_s[2:])
    assert counted.ended == counted.unplaced == 0


def test_nobody_is_next_to_an_owner_that_has_the_card_to_itself() -> None:
    whole = a_job("owner", serves(1), hami(20000, 100), at_s=600, memory_used=0.2)
    jobs = [best_effort(mib=1000), whole]
    world = run(jobs)
    assert [run.job.name for run in world.running.values()] == ["owner"]
    assert (world.counted.ended, world.counted.over_s) == (1, 0)


def test_a_closed_card_has_no_room_for_an_hour() -> None:
    workload = replace(a_workload([best_effort(at_s=60)], hours=3), spare_memory=True)
    world = Simulation(workload, REGISTRY, [SpareMemory(), Lending()])
    assert world.spare is not None
    world.spare.close(0, 0)
    assert HOUR_S - 120 <= world.run().waits_s[0] <= HOUR_S
