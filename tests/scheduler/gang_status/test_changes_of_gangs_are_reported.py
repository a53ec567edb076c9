"""Each change of a gang is one event and one count."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tessera_scheduler.gangs.settings import GangWrite
from tessera_scheduler.scheduler import Scheduler
from tests.scheduler.fake_cluster import leading, until
from tests.scheduler.gangs.gang_cluster import GangCluster, whole

pytestmark = pytest.mark.looptime


def events(cluster: GangCluster) -> list[dict[str, Any]]:
    found = msgspec.json.decode(cluster.store.handle("GET", "/api/v1/events").body)["items"]
    gangs = [each for each in found if each["reason"].startswith("Gang")]
    return sorted(gangs, key=lambda each: str(each["metadata"]["resourceVersion"]))


def reasons(cluster: GangCluster) -> list[str]:
    return [each["reason"] for each in events(cluster)]


def metric(scheduler: Scheduler, name: str) -> float:
    lines = scheduler.metrics.registry.text().decode().splitlines()
    whole_name = f"tessera_scheduler_{name} "
    return float(next(line for line in lines if line.startswith(whole_name)).split()[-1])


async def test_a_start_is_reported_from_the_first_pod_on_its_pod_group() -> None:
    cluster = GangCluster(cards=2)
    async with leading(cluster, config=whole(write=(GangWrite.VOLCANO,))) as scheduler:
        cluster.pod_group("g", 2)
        cluster.members("g", 1)
        await until(lambda: reasons(cluster), 10)
        (waiting,) = events(cluster)
        assert waiting["message"] == "gang default/g waits: default/g has 1 of 2 members"
        assert waiting["involvedObject"]["kind"] == "PodGroup"
        assert waiting["involvedObject"]["uid"]
        assert metric(scheduler, 'gangs{phase="gathering"}') == 1
        assert metric(scheduler, 'gangs_waiting{reason="members"}') == 1
        cluster.members("g", 2)
        await cluster.schedule(scheduler, 8)
        await until(lambda: "GangStarted" in reasons(cluster), 10)
        assert metric(scheduler, 'gangs{phase="started"}') == 1
        assert metric(scheduler, 'gangs_waiting{reason="members"}') == 0
        assert metric(scheduler, "gang_start_seconds_count") == 1
        assert "GangReserved" in reasons(cluster)
        assert len(set(reasons(cluster))) == len(reasons(cluster))


async def test_where_no_status_is_written_events_are_on_a_pod_and_numbers_are_no_new_reason() -> (
    None
):
    cluster = GangCluster(cards=2)
    async with leading(cluster, config=whole(write=(GangWrite.NONE,))) as scheduler:
        assert scheduler.gang_statuses is not None
        assert scheduler.gang_statuses.origins == frozenset()
        cluster.pod_group("g", 3)
        cluster.members("g", 1)
        await until(lambda: reasons(cluster), 10)
        cluster.members("g", 2)
        await cluster.schedule(scheduler, 5)
        (waiting,) = events(cluster)
        assert waiting["involvedObject"]["kind"] == "Pod"
        assert waiting["involvedObject"]["name"] == "g1"


async def test_a_barrier_that_is_missed_is_reported_and_counted() -> None:
    cluster = GangCluster(cards=2)
    async with leading(cluster, config=whole(barrier_s=3, write=(GangWrite.NONE,))) as scheduler:
        cluster.pod_group("g", 2)
        cluster.members("g", 1, 2)
        await until(lambda: cluster.filter(scheduler, "g1").node_names, 5)
        assert await cluster.bind(scheduler, "g1", "n0")
        await until(lambda: "GangMissed" in reasons(cluster), 10)
        missed = next(each for each in events(cluster) if each["reason"] == "GangMissed")
        assert "1 of 2 members arrived, missing default/g2" in missed["message"]
        assert missed["type"] == "Warning"
        assert metric(scheduler, "gang_misses_total") == 1


async def test_a_gang_that_falls_below_its_minimum_is_broken_and_dissolved_when_it_is_gone() -> (
    None
):
    cluster = GangCluster(cards=2)
    async with leading(cluster, config=whole(write=(GangWrite.NONE,))) as scheduler:
        cluster.pod_group("g", 2)
        cluster.members("g", 1, 2)
        await cluster.schedule(scheduler, 8)
        assert cluster.bound() == ["g1", "g2"]
        await until(lambda: "GangStarted" in reasons(cluster), 10)
        cluster.delete("g2")
        await until(lambda: "GangBroken" in reasons(cluster), 10)
        cluster.delete("g1")
        await until(lambda: "GangDissolved" in reasons(cluster), 10)
