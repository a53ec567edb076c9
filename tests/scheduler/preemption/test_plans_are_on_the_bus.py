"""What becomes of the scheduler's plans is on the bus, each phase once."""

from __future__ import annotations

import asyncio

import pytest

from tessera_cli import screen
from tessera_cli.event_lines import as_line
from tessera_cli.plan import plans as command
from tessera_embedded.apiserver.faults import Cut
from tessera_schema.plans import PLANS, PlanEvent, PlanKind, PlanPhase, decode_plan
from tests.scheduler.fake_cluster import FakeCluster, leading, standing_by, until
from tests.scheduler.gangs.gang_cluster import starting_whole
from tests.scheduler.gangs.test_incomplete_gangs_are_dissolved import half_a_gang
from tests.scheduler.gangs.test_incomplete_gangs_are_dissolved import leaving as member_leaves
from tests.scheduler.preemption import test_gangs_evict as gangs
from tests.scheduler.preemption.test_pods_are_evicted import (
    a_cluster,
    begun,
    fill,
    give_way,
    leaving,
    on,
    phases,
    plans,
    wait_for_room,
)

pytestmark = pytest.mark.looptime


def published(cluster: FakeCluster) -> list[PlanEvent]:
    return [decode_plan(message.data) for message in cluster.bus.said("tessera.v1.*.plan.>")]


def said(cluster: FakeCluster) -> list[str]:
    return [
        message.subject.rpartition(".")[2] for message in cluster.bus.said("tessera.v1.*.plan.>")
    ]


async def test_a_plan_for_a_pod_is_followed_from_proposal_to_end() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await give_way(cluster, scheduler)
        cluster.delete("low")
        await until(lambda: phases(cluster) == ["Done"])
        await asyncio.sleep(60)
        assert said(cluster) == ["proposed", "started", "done"]
        (plan,) = plans(cluster)
        for event in published(cluster):
            assert event.plan == plan["metadata"]["name"]
            assert event.kind is PlanKind.PREEMPT
            assert [pod.name for pod in event.pods] == ["low"]
            assert event.for_pod is not None
            assert event.for_pod.name == "high"
            assert event.for_gang == ""
            assert event.cost == plan["spec"]["cost"] > 0
        proposed, _, done = published(cluster)
        assert proposed.message == plan["spec"]["reason"]
        assert done.message == "1 pod has left for default/high"
        message = cluster.bus.said("tessera.v1.*.plan.>")[0]
        assert message.envelope.type == "dev.tessera.plan.proposed"
        assert message.envelope.source.startswith("/tessera/scheduler/")


async def test_a_plan_for_a_gang_names_the_gang() -> None:
    cluster = gangs.a_cluster()
    async with leading(cluster, config=gangs.on()) as scheduler:
        await gangs.full(cluster, scheduler)
        await until(lambda: leaving(cluster, "a") and leaving(cluster, "b"))
        await until(lambda: said(cluster) == ["proposed", "started"])
        for event in published(cluster):
            assert (event.for_pod, event.for_gang) == (None, "volcano/default/g")
            assert {pod.name for pod in event.pods} == {"a", "b"}


async def test_a_replica_that_takes_over_publishes_only_what_follows() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await give_way(cluster, scheduler)
    assert said(cluster) == ["proposed", "started"]
    async with leading(cluster, config=on()):
        await asyncio.sleep(30)
        assert said(cluster) == ["proposed", "started"]
        cluster.delete("low")
        await until(lambda: phases(cluster) == ["Done"])
        await until(lambda: said(cluster) == ["proposed", "started", "done"])


async def test_a_replica_that_stands_by_publishes_nothing() -> None:
    cluster = a_cluster()
    async with (
        leading(cluster, config=on()) as scheduler,
        standing_by(cluster, config=on()),
    ):
        await give_way(cluster, scheduler)
        cluster.delete("low")
        await until(lambda: phases(cluster) == ["Done"])
        await asyncio.sleep(60)
        assert said(cluster) == ["proposed", "started", "done"]


async def test_a_phase_is_published_whose_write_the_api_server_did_not_answer() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await give_way(cluster, scheduler)
        cluster.fault("PATCH", rf"{PLANS}/.*/status", Cut(after=True))
        cluster.delete("low")
        await until(lambda: phases(cluster) == ["Done"])
        await asyncio.sleep(60)
        assert said(cluster) == ["proposed", "started", "done"]


async def test_the_command_displays_a_plan_of_the_scheduler(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await give_way(cluster, scheduler)
    (plan,) = plans(cluster)
    found = await command.read_one(cluster.kube, plan["metadata"]["name"])
    command.detail(screen.console(sized=False), found)
    assert "step 1 (begun): default/low leaves n0\n" in capsys.readouterr().out
    lines = [as_line(message) for message in cluster.bus.said("tessera.v1.*.plan.>")]
    assert all(" Preempt preempt-" in line for line in lines)
    assert all("(pods default/low, for default/high, costs " in line for line in lines)


async def test_a_plan_that_its_replica_left_is_declined() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on(preemptors=())) as scheduler:
        await fill(cluster, scheduler, "low")
        wait_for_room(cluster, scheduler, "high", 10)
    begun(cluster, "interrupted", ("low",), "high", phase=PlanPhase.PROPOSED, steps=0)
    async with leading(cluster, config=on(preemptors=())):
        await until(lambda: phases(cluster) == ["Declined"])
        await until(lambda: said(cluster) == ["declined"])
        assert published(cluster)[0].message == "the replica that made it has ended"


async def test_a_plan_that_gives_a_gang_up_is_followed_over_a_takeover() -> None:
    cluster = await half_a_gang()
    async with starting_whole(cluster):
        await until(lambda: said(cluster) == ["proposed"])
    async with starting_whole(cluster):
        await until(lambda: member_leaves(cluster, "g1"), 400)
        cluster.delete("g1")
        await until(lambda: said(cluster) == ["proposed", "started", "done"])
    for event in published(cluster):
        assert event.kind is PlanKind.DISSOLVE
        assert event.for_gang == "volcano/default/g"
        assert [pod.name for pod in event.pods] == ["g1"]
