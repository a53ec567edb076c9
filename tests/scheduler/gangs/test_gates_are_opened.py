"""Scheduling gates in a cluster: the leader opens them, whatever the API server answers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tessera_embedded.apiserver.faults import Answer
from tests.scheduler.fake_cluster import leading, settings, until
from tests.scheduler.gangs.gang_cluster import GangCluster, starting_whole

GATED: Any = {"schedulingGates": [{"name": "tessera.dev/admission"}]}


def gated(cluster: GangCluster) -> list[str]:
    pods = msgspec.json.decode(cluster.store.handle("GET", "/api/v1/pods").body)["items"]
    return sorted(p["metadata"]["name"] for p in pods if p["spec"].get("schedulingGates"))


def events(cluster: GangCluster) -> list[Any]:
    path = "/apis/events.k8s.io/v1/events"
    found: list[Any] = msgspec.json.decode(cluster.store.handle("GET", path).body)["items"]
    return found


async def test_gates_open_when_the_gang_has_cards_and_it_starts() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("a", 2)
    cluster.member("a1", "a", **GATED)
    async with starting_whole(cluster) as scheduler:
        await asyncio.sleep(3)
        assert gated(cluster) == ["a1"]
        cluster.member("a2", "a", **GATED)
        await until(lambda: not gated(cluster))
        await cluster.schedule(scheduler, 5)
        assert cluster.bound() == ["a1", "a2"]


async def test_a_gang_that_does_not_fit_stays_gated_until_there_is_room() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("a", 2)
    cluster.pod("x", 16000, schedulerName="tessera-scheduler")
    async with starting_whole(cluster) as scheduler:
        await cluster.schedule(scheduler, 2)
        for n in (1, 2):
            cluster.member(f"a{n}", "a", **GATED)
        await asyncio.sleep(5)
        assert gated(cluster) == ["a1", "a2"]
        cluster.delete("x")
        await until(lambda: not gated(cluster))


async def test_a_patch_that_fails_is_sent_again() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("a", 2)
    async with starting_whole(cluster):
        for status in (409, 500, 503):
            cluster.fault("PATCH", ".*/pods/a1$", Answer(status))
        for n in (1, 2):
            cluster.member(f"a{n}", "a", **GATED)
        await until(lambda: not gated(cluster))


async def test_a_gate_whose_pod_names_no_gang_any_more_is_opened() -> None:
    cluster = GangCluster()
    cluster.pod("p", schedulerName="tessera-scheduler", **GATED)
    async with starting_whole(cluster):
        await until(lambda: not gated(cluster))


async def test_gates_are_opened_where_gangs_are_switched_off_again() -> None:
    cluster = GangCluster()
    cluster.pod_group("a", 9)
    cluster.member("a1", "a", **GATED)
    async with leading(cluster, config=settings()):
        await until(lambda: not gated(cluster))
        cluster.member("a2", "a", **GATED)
        await until(lambda: not gated(cluster))


async def test_gates_of_others_stay() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("a", 1)
    gates = [{"name": "other.dev/x"}, *GATED["schedulingGates"]]
    cluster.member("a1", "a", schedulingGates=gates)
    async with leading(cluster, config=settings()):
        await asyncio.sleep(2)
        assert gated(cluster) == ["a1"]


async def test_a_gated_pod_whose_gang_cannot_start_gets_an_event_that_says_why() -> None:
    cluster = GangCluster()
    uid = cluster.member("x1", "gone", **GATED)
    async with starting_whole(cluster) as scheduler:
        await until(lambda: events(cluster))
        (event,) = events(cluster)
        assert (event["reason"], event["regarding"]["uid"]) == ("GangWaiting", uid)
        assert "PodGroup default/gone does not exist: create it" in event["note"]
        assert scheduler.gangs is not None
        assert "does not exist" in scheduler.gangs.why_gated(cluster.read("x1"))
        cluster.pod_group("gone", 1)
        await until(lambda: not gated(cluster))
        assert scheduler.gangs.why_gated(cluster.read("x1")) == ""


async def test_new_members_need_gates_while_a_gang_waits_for_room() -> None:
    cluster = GangCluster(cards=2)
    for name in ("a", "b"):
        cluster.pod_group(name, 2)
    async with starting_whole(cluster) as scheduler:
        gangs = scheduler.gangs
        assert gangs is not None
        await until(lambda: not gangs.others_wait())
        for n in (1, 2):
            cluster.member(f"a{n}", "a")
        await cluster.schedule(scheduler, 5)
        assert cluster.bound() == ["a1", "a2"]
        assert not gangs.others_wait()
        for n in (1, 2):
            cluster.member(f"b{n}", "b")
        await until(gangs.others_wait)
        for n in (1, 2):
            cluster.delete(f"a{n}")
        await cluster.schedule(scheduler, 20)
        assert cluster.bound() == ["b1", "b2"]
        await until(lambda: not gangs.others_wait())
