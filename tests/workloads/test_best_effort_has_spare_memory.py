"""Best-effort pods on memory that owners do not use, in the simulated cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.workloads_counted import Counted
from benchmarks.workloads_lending import Lending
from benchmarks.workloads_memory import SparePlacement
from benchmarks.workloads_memory_ends import SpareMemory
from benchmarks.workloads_pods import Job
from benchmarks.workloads_simulation import Simulation
from tessera_core.usage.memory_room import MemoryRoomRules
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


def test_an_owner_that_comes_has_its_grant_and_the_youngest_ends() -> None:
    jobs = [best_effort("old", 30000), best_effort("young", 30000, 600),
            owner(at_s=1200, mib=45000)]  # fmt: skip
    world = run(jobs, hours=1)
    assert [run.job.name for run in world.running.values()] == ["old", "owner"]
    assert world.counted.ended == 1
    assert world.counted.waits_s == pytest.approx([0, 0, 0], abs=60)
    assert world.counted.again_s > 0
    assert world.counted.over_s == 0


def growing(rules: MemoryRoomRules) -> tuple[Counted, SparePlacement]:
    """An owner that uses 4 GB at first and in two hours all of its 78."""
    grows = owner(mib=78000, memory_used=1.0, memory_first=0.05, memory_grows_s=2.2 * HOUR_S)
    jobs = (grows, best_effort(mib=20000, memory_used=1.0))
    world = Simulation(replace(a_workload(jobs), spare_memory=True), REGISTRY, [SpareMemory()])
    assert world.spare is not None
    world.spare.rules = rules
    counted = world.run()
    assert [run.job.name for run in world.running.values()] == ["owner"]
    return counted, world.spare


def test_who_grows_within_the_margin_has_what_it_needs_in_time() -> None:
    counted, spare = growing(MemoryRoomRules())
    assert counted.ended == 1
    assert counted.over_s == 0
    assert not spare.closed(3 * HOUR_S).any()


def test_who_outgrows_the_margin_is_hurt_and_the_card_closes() -> None:
    counted, spare = growing(MemoryRoomRules(margin_percent=0, margin_mib=0))
    assert counted.ended == 1
    assert counted.over_s == 60
    assert spare.closed(2.5 * HOUR_S).all()


def test_nobody_is_next_to_an_owner_of_all_cores() -> None:
    whole = a_job("owner", serves(1), hami(20000, 100), memory_used=0.2)
    world = run([whole, best_effort(mib=1000)])
    assert [run.job.name for run in world.running.values()] == ["owner"]


def test_a_closed_card_has_no_room_for_an_hour() -> None:
    workload = replace(a_workload([best_effort(at_s=60)], hours=3), spare_memory=True)
    world = Simulation(workload, REGISTRY, [SpareMemory(), Lending()])
    assert world.spare is not None
    world.spare.close(0, 0)
    assert HOUR_S - 120 <= world.run().waits_s[0] <= HOUR_S
