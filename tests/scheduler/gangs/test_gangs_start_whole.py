"""With the switch on, pods of a gang start together or not at all, through the extender's calls."""

from __future__ import annotations

import asyncio

import pytest

from tessera_core.machines.gang import GangPhase
from tessera_schema.reasons import Reason
from tests.scheduler.fake_cluster import leading, until
from tests.scheduler.gangs.gang_cluster import WHOLE, GangCluster, starting_whole

pytestmark = pytest.mark.looptime

KOORDINATOR = "scheduling.sigs.k8s.io/v1alpha1"
COSCHEDULING = "scheduling.x-k8s.io/v1alpha1"


async def test_switched_off_a_gang_is_placed_one_by_one() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("g", 3)
    cluster.members("g", 1, 2, 3)
    async with leading(cluster) as scheduler:
        assert scheduler.gangs is None
        await cluster.schedule(scheduler, 3)
        assert cluster.bound() == ["g1", "g2"]


async def test_of_two_gangs_that_fit_one_at_a_time_one_starts() -> None:
    cluster = GangCluster(cards=4)
    for gang in ("a", "b"):
        cluster.pod_group(gang, 4)
    for n in (1, 2, 3, 4):
        cluster.members("a", n)
        cluster.members("b", n)
    async with starting_whole(cluster) as scheduler:
        await cluster.schedule(scheduler)
        started = cluster.bound()
        assert started in (["a1", "a2", "a3", "a4"], ["b1", "b2", "b3", "b4"])
        for name in started:
            cluster.delete(name)
        await cluster.schedule(scheduler, 30)
        assert len(cluster.bound()) == 4
        assert cluster.errors == []


async def test_a_gang_that_is_not_whole_holds_nothing_and_says_what_it_lacks() -> None:
    cluster = GangCluster(cards=4)
    cluster.pod_group("g", 3)
    uid = cluster.members("g", 1, 2)[0]
    cluster.pod("single", WHOLE)
    async with starting_whole(cluster) as scheduler:
        answer = cluster.filter(scheduler, "g1")
        assert answer.failed_and_unresolvable_nodes == {"n0": Reason.GANG_WAITING.wire}
        decision = scheduler.decisions.get(uid)
        assert decision is not None
        assert decision.over == "gang default/g waits: default/g has 2 of 3 members"
        assert await cluster.place(scheduler, "single") == "n0"
        assert [entry.grant.name for entry in scheduler.ledger.entries()] == ["single"]


async def test_no_binding_is_written_before_the_last_member_has_arrived() -> None:
    cluster = GangCluster(cards=3)
    cluster.pod_group("g", 3)
    cluster.members("g", 1, 2, 3)
    async with starting_whole(cluster) as scheduler:
        await until(lambda: cluster.filter(scheduler, "g1").node_names, 5)
        async with asyncio.TaskGroup() as group:
            cluster.filter(scheduler, "g2")
            first = [group.create_task(cluster.bind(scheduler, f"g{n}", "n0")) for n in (1, 2)]
            await asyncio.sleep(10)
            assert not any(call.done() for call in first)
            assert cluster.bound() == []
            cluster.filter(scheduler, "g3")
            assert await cluster.bind(scheduler, "g3", "n0") == ""
        assert [call.result() for call in first] == ["", ""]
        assert cluster.bound() == ["g1", "g2", "g3"]


async def test_a_barrier_that_is_missed_answers_who_was_late_and_frees_the_cards() -> None:
    cluster = GangCluster(cards=3)
    cluster.pod_group("g", 3)
    cluster.members("g", 1, 2, 3)
    async with starting_whole(cluster) as scheduler:
        await until(lambda: cluster.filter(scheduler, "g1").node_names, 5)
        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(cluster.bind(scheduler, f"g{n}", "n0")) for n in (1, 2)]
        took = asyncio.get_running_loop().time() - began
        assert 15 <= took <= 17
        assert {call.result() for call in calls} == {
            "gang default/g does not start now: 2 of 3 members arrived, missing default/g3: time "
            "is up"
        }
        assert list(scheduler.ledger.entries()) == []
        await cluster.schedule(scheduler)
        assert cluster.bound() == ["g1", "g2", "g3"]


async def test_the_barrier_is_as_long_as_it_is_set() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("g", 2)
    cluster.members("g", 1, 2)
    async with starting_whole(cluster, {"barrier_s": 40}) as scheduler:
        await until(lambda: cluster.filter(scheduler, "g1").node_names, 5)
        async with asyncio.TaskGroup() as group:
            call = group.create_task(cluster.bind(scheduler, "g1", "n0"))
            await asyncio.sleep(38)
            assert not call.done()


@pytest.mark.parametrize(
    ("api", "label"),
    [
        (KOORDINATOR, "pod-group.scheduling.sigs.k8s.io"),
        (COSCHEDULING, "scheduling.x-k8s.io/pod-group"),
    ],
)
async def test_gangs_of_each_api_start_whole(api: str, label: str) -> None:
    cluster = GangCluster(cards=2, apis=(api,))
    cluster.pod_group("g", 2, api)

    def create(name: str) -> None:
        cluster.pod(name, WHOLE, schedulerName="tessera-scheduler")
        cluster.call("PATCH", cluster.path(name), {"metadata": {"labels": {label: "g"}}})

    async with starting_whole(cluster) as scheduler:
        create("p1")
        await cluster.schedule(scheduler, 5)
        assert cluster.bound() == []
        create("p2")
        await cluster.schedule(scheduler)
        assert cluster.bound() == ["p1", "p2"]


async def test_a_pod_group_that_comes_after_its_pods_starts_them() -> None:
    """GA3, once the pods are annotated"""
    cluster = GangCluster(cards=2)
    cluster.members("g", 1, 2)
    async with starting_whole(cluster) as scheduler:
        await cluster.schedule(scheduler, 5)
        assert cluster.bound() == []
        cluster.pod_group("g", 2)
        await cluster.schedule(scheduler)
        assert cluster.bound() == ["g1", "g2"]


async def test_pods_of_a_group_with_a_minimum_of_one_go_alone() -> None:
    cluster = GangCluster(cards=1)
    cluster.pod_group("g", 1)
    cluster.members("g", 1, 2)
    async with starting_whole(cluster) as scheduler:
        await cluster.schedule(scheduler, 4)
        assert cluster.bound() == ["g1"]


async def test_members_of_another_scheduler_do_not_count() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("g", 2)
    uid = cluster.members("g", 1)[0]
    notes = {"scheduling.k8s.io/group-name": "g"}
    cluster.pod("other", WHOLE, annotations=notes, schedulerName="somebody")
    async with starting_whole(cluster) as scheduler:
        cluster.filter(scheduler, "g1")
        decision = scheduler.decisions.get(uid)
        assert decision is not None
        assert decision.over.endswith(
            "default/g has 1 of 2 members; default/other cannot be placed: spec.schedulerName: "
            "somebody: it is another scheduler's pod"
        )


async def test_a_member_that_can_never_be_placed_keeps_the_others_back() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("g", 2)
    cluster.members("g", 1)
    cluster.member("huge", "g", mib=1 << 30)
    async with starting_whole(cluster) as scheduler:
        await cluster.schedule(scheduler, 5)
        assert cluster.bound() == []
        assert list(scheduler.ledger.entries()) == []


async def test_processors_and_memory_of_nodes_count() -> None:
    cluster = GangCluster(nodes=1, cards=2)
    status = {"allocatable": {"cpu": "3", "memory": "8Gi", "pods": "110"}}
    cluster.call("PATCH", "/api/v1/nodes/n0/status", {"status": status})
    cluster.pod_group("g", 2)
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(WHOLE), "cpu": "2"}
    for name in ("g1", "g2"):
        resources = {"limits": limits, "requests": limits}
        cluster.member(name, "g", containers=[{"name": "c", "image": "i", "resources": resources}])
    async with starting_whole(cluster) as scheduler:
        await cluster.schedule(scheduler, 5)
        assert cluster.bound() == []
        cluster.call("PATCH", "/api/v1/nodes/n0/status", {"status": {"allocatable": {"cpu": "4"}}})
        await cluster.schedule(scheduler, 20)
        assert cluster.bound() == ["g1", "g2"]


async def test_a_member_that_is_not_offered_its_node_goes_where_it_is_offered_one() -> None:
    """GB5: it moves to free cards there; no other member gives its own up for it"""
    cluster = GangCluster(nodes=2, cards=2)
    cluster.pod_group("g", 2)
    cluster.members("g", 1, 2)
    async with starting_whole(cluster) as scheduler:
        await until(lambda: cluster.filter(scheduler, "g1").node_names, 5)
        node = next(iter(cluster.filter(scheduler, "g1").node_names or ()))
        other = next(each for each in cluster.nodes if each != node)
        assert cluster.filter(scheduler, "g2", [other]).node_names == (other,)
        async with asyncio.TaskGroup() as group:
            first = group.create_task(cluster.bind(scheduler, "g1", node))
            second = group.create_task(cluster.bind(scheduler, "g2", other))
        assert (first.result(), second.result()) == ("", "")


async def test_a_pod_that_goes_at_the_barrier_lets_the_others_go() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("g", 2)
    cluster.members("g", 1, 2)
    async with starting_whole(cluster) as scheduler:
        await until(lambda: cluster.filter(scheduler, "g1").node_names, 5)
        async with asyncio.TaskGroup() as group:
            call = group.create_task(cluster.bind(scheduler, "g1", "n0"))
            await asyncio.sleep(1)
            cluster.delete("g2")
        assert "default/g has 1 of 2 members" in call.result()
        assert list(scheduler.ledger.entries()) == []


async def test_a_call_that_is_made_again_replaces_the_former_one() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("g", 2)
    cluster.members("g", 1, 2)
    async with starting_whole(cluster) as scheduler:
        await until(lambda: cluster.filter(scheduler, "g1").node_names, 5)
        async with asyncio.TaskGroup() as group:
            former = group.create_task(cluster.bind(scheduler, "g1", "n0"))
            await asyncio.sleep(1)
            later = group.create_task(cluster.bind(scheduler, "g1", "n0"))
            await asyncio.sleep(1)
            assert former.result() == "kube-scheduler has called again"
            cluster.filter(scheduler, "g2")
            assert await cluster.bind(scheduler, "g2", "n0") == ""
        assert later.result() == ""


async def test_a_call_that_ends_has_not_arrived() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("g", 2)
    cluster.members("g", 1, 2)
    async with starting_whole(cluster) as scheduler:
        await until(lambda: cluster.filter(scheduler, "g1").node_names, 5)
        async with asyncio.TaskGroup() as group:
            gone = group.create_task(cluster.bind(scheduler, "g1", "n0"))
            await asyncio.sleep(1)
            gone.cancel()
            await asyncio.sleep(1)
            cluster.filter(scheduler, "g2")
            call = group.create_task(cluster.bind(scheduler, "g2", "n0"))
            await asyncio.sleep(5)
            assert not call.done()
            cluster.filter(scheduler, "g1")
            assert await cluster.bind(scheduler, "g1", "n0") == ""
        assert call.result() == ""


async def test_another_leader_finishes_what_was_started_by_halves_before_others_are_placed() -> (
    None
):
    cluster = GangCluster(cards=3)
    cluster.pod_group("g", 3)
    cluster.members("g", 1, 2, 3)
    async with starting_whole(cluster) as scheduler:
        await cluster.schedule(scheduler, 5)
        assert cluster.bound() == ["g1", "g2", "g3"]
    cluster.delete("g3")
    cluster.members("g", 4)
    cluster.pod("older", WHOLE)
    async with starting_whole(cluster) as scheduler:
        assert scheduler.gangs is not None
        coordinator = scheduler.gangs.coordinator
        now = scheduler.monotonic_clock.time()
        assert coordinator.phase("volcano/default/g", now) is GangPhase.RESERVED
        assert cluster.filter(scheduler, "older").node_names == ()
        await cluster.schedule(scheduler, 5)
        assert cluster.bound() == ["g1", "g2", "g4"]


async def test_a_replica_that_stops_leading_answers_the_calls_that_wait() -> None:
    cluster = GangCluster(cards=2)
    cluster.pod_group("g", 2)
    cluster.members("g", 1, 2)
    async with starting_whole(cluster) as scheduler:
        await until(lambda: cluster.filter(scheduler, "g1").node_names, 5)
        assert scheduler.gangs is not None
        async with asyncio.TaskGroup() as group:
            call = group.create_task(cluster.bind(scheduler, "g1", "n0"))
            await asyncio.sleep(1)
            scheduler.gangs.resign()
        assert call.result() == "this replica does not lead any more: ask again"
        assert list(scheduler.ledger.entries()) == []


async def test_two_gangs_start_before_one_of_them_grows_and_growth_takes_what_is_left() -> None:
    cluster = GangCluster(cards=5)
    for gang in ("a", "b"):
        cluster.pod_group(gang, 2)
    cluster.members("a", 1, 2, 3, 4, 5)
    cluster.members("b", 1, 2)
    async with starting_whole(cluster) as scheduler:
        await cluster.schedule(scheduler)
        assert cluster.bound() == ["a1", "a2", "a3", "b1", "b2"]
        cluster.pod_group("c", 2)
        cluster.members("c", 1, 2)
        await cluster.schedule(scheduler, 3)
        for name in ("a3", "b2"):
            cluster.delete(name)
        assert not cluster.filter(scheduler, "a4").node_names
        await cluster.schedule(scheduler)
        assert cluster.bound() == ["a1", "a2", "b1", "c1", "c2"]
