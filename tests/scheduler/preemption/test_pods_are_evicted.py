"""With preemption on pods of lower priority are evicted for one that waits, by a plan."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tessera_embedded.apiserver.faults import Answer
from tessera_runtime.kube import timestamps
from tessera_scheduler.preemption.settings import PreemptionSettings, PreemptionSwitch
from tessera_scheduler.scheduler import Scheduler
from tessera_scheduler.settings import SchedulerSettings
from tessera_schema.grants import Share
from tessera_schema.plans import PLANS
from tests.scheduler.fake_cluster import FakeCluster, leading, settings, until

pytestmark = pytest.mark.looptime
WHOLE = 16000
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROOT = Path(__file__).parents[3]
PLAN_DEFINITION = msgspec.yaml.decode(
    (ROOT / "deploy/kustomize/base/crds/rebalanceplans.yaml").read_bytes()
)
MAY_GO = {"tessera.dev/preemptible": "true"}
PROFILE = {"schedulerName": "tessera-scheduler"}


def on(**more: Any) -> SchedulerSettings:
    return replace(
        settings(), preemption=PreemptionSettings(mode=PreemptionSwitch.ON, protect_s=0, **more)
    )


def a_cluster(nodes: int = 1, cards: int = 1) -> FakeCluster:
    cluster = FakeCluster(nodes, cards)
    cluster.make(CRDS, PLAN_DEFINITION)
    for node in cluster.nodes:
        cluster.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": []}})
    return cluster


def plans(cluster: FakeCluster) -> list[dict[str, Any]]:
    body = cluster.store.handle("GET", PLANS).body
    found: list[dict[str, Any]] = msgspec.json.decode(body)["items"]
    return found


def phases(cluster: FakeCluster) -> list[str]:
    return [plan.get("status", {}).get("phase", "") for plan in plans(cluster)]


def begun(
    cluster: FakeCluster,
    name: str,
    victims: tuple[str, ...],
    for_pod: str,
    *,
    phase: str = "Started",
    steps: int | None = None,
) -> None:
    """A plan that a former leader had begun, with so many evictions; None = all."""

    def pod(name: str) -> dict[str, str]:
        uid = cluster.read(name).metadata.uid
        return {"namespace": "default", "name": name, "uid": uid, "node": "n0"}

    share = Share(
        container="c", position=0, vendor="nvidia", dialect="hami", card="GPU-n0-0", index=0,
        memory_bytes=WHOLE << 20,
    )  # fmt: skip
    seat = {"pod": pod(for_pod), "shares": [msgspec.to_builtins(share)]}
    spec = {
        "kind": "Preempt", "reason": "r", "decision": "approved",
        "steps": [{"pod": pod(victim)} for victim in victims], "forPod": pod(for_pod),
        "promise": {"priority": 10, "seats": [seat]},
    }  # fmt: skip
    kind = {"apiVersion": "tessera.dev/v1alpha1", "kind": "RebalancePlan"}
    cluster.make(PLANS, {**kind, "metadata": {"name": name}, "spec": spec})
    started = timestamps.format_time(cluster.clock.time())
    count = len(victims) if steps is None else steps
    status = {"phase": phase, "stepsBegun": count, "started": started}
    cluster.call("PATCH", f"{PLANS}/{name}/status", {"status": status})


def exists(cluster: FakeCluster, name: str) -> bool:
    return cluster.store.handle("GET", cluster.path(name)).code == 200


def leaving(cluster: FakeCluster, name: str) -> bool:
    return exists(cluster, name) and cluster.read(name).metadata.deletion_timestamp is not None


async def fill(cluster: FakeCluster, scheduler: Scheduler, *names: str, **more: Any) -> None:
    """Pods of priority 1 that hold a whole card each."""
    for name in names:
        cluster.pod(name, WHOLE, annotations=MAY_GO, priority=1, **more)
        assert await cluster.place(scheduler, name)


def wait_for_room(cluster: FakeCluster, scheduler: Scheduler, name: str, priority: int) -> None:
    cluster.pod(name, WHOLE, priority=priority, **PROFILE)
    assert cluster.filter(scheduler, name).node_names == ()


async def give_way(cluster: FakeCluster, scheduler: Scheduler) -> None:
    """Pod `low` is being evicted for `high`."""
    await fill(cluster, scheduler, "low")
    wait_for_room(cluster, scheduler, "high", 10)
    await until(lambda: leaving(cluster, "low"))


async def test_a_victim_goes_and_the_pod_gets_its_cards() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await give_way(cluster, scheduler)
        (plan,) = plans(cluster)
        assert plan["spec"]["kind"] == "Preempt"
        assert [step["pod"]["name"] for step in plan["spec"]["steps"]] == ["low"]
        assert plan["spec"]["forPod"]["name"] == "high"
        cluster.pod("equal", WHOLE, priority=10, **PROFILE)
        cluster.delete("low")
        await until(lambda: phases(cluster) == ["Done"])
        assert cluster.filter(scheduler, "equal").node_names == ()
        assert await cluster.place(scheduler, "high") == "n0"


async def test_nobody_of_equal_priority_goes() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await fill(cluster, scheduler, "low")
        wait_for_room(cluster, scheduler, "equal", 1)
        await asyncio.sleep(120)
        assert plans(cluster) == []
        assert not leaving(cluster, "low")


async def test_nobody_goes_while_preemption_is_only_explained() -> None:
    cluster = a_cluster()
    async with leading(cluster) as scheduler:
        await fill(cluster, scheduler, "low")
        wait_for_room(cluster, scheduler, "high", 10)
        await asyncio.sleep(120)
        assert plans(cluster) == []
        assert not leaving(cluster, "low")


async def test_pods_of_schedulers_that_are_not_named_evict_nobody() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on(preemptors=("mine",))) as scheduler:
        await fill(cluster, scheduler, "low")
        wait_for_room(cluster, scheduler, "high", 10)
        await asyncio.sleep(120)
        assert plans(cluster) == []


async def test_a_plan_fails_that_a_budget_does_not_allow_any_more() -> None:
    cluster = a_cluster(cards=2)
    cluster.fault("POST", r".*/eviction", Answer(429), 1_000)
    async with leading(cluster, config=on(preemptors=())) as scheduler:
        await fill(cluster, scheduler, "low", "other")
        wait_for_room(cluster, scheduler, "high", 10)
        begun(cluster, "interrupted", ("low",), "high")
        await until(lambda: phases(cluster) == ["Failed"])
        assert not leaving(cluster, "low")
        assert "low is not evicted" in plans(cluster)[0]["status"]["message"]
        await until(lambda: not scheduler.ledger.promises)


async def test_a_pod_that_goes_away_ends_its_plan_before_anybody_is_evicted() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await fill(cluster, scheduler, "low")
        wait_for_room(cluster, scheduler, "high", 10)
        cluster.delete("high")
        await asyncio.sleep(120)
        assert not leaving(cluster, "low")
        assert "Started" not in phases(cluster)


async def test_another_replica_goes_on_with_the_plan() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await give_way(cluster, scheduler)
    assert phases(cluster) == ["Started"]
    async with leading(cluster, config=on()) as scheduler:
        cluster.delete("low")
        await until(lambda: phases(cluster) == ["Done"])
        assert len(plans(cluster)) == 1
        assert await cluster.place(scheduler, "high") == "n0"


@pytest.mark.parametrize(("phase", "steps", "ends"), [
    ("Proposed", 0, "Declined"), ("Started", 0, "Done"), ("Started", 1, "Done"),
])  # fmt: skip
async def test_a_leader_that_ends_at_any_step_leaves_nothing_behind(
    phase: str, steps: int, ends: str
) -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on(preemptors=())) as scheduler:
        await fill(cluster, scheduler, "low")
        wait_for_room(cluster, scheduler, "high", 10)
    begun(cluster, "interrupted", ("low",), "high", phase=phase, steps=steps)
    async with leading(cluster, config=on(preemptors=())) as scheduler:
        if ends == "Done":
            await until(lambda: leaving(cluster, "low"))
            cluster.delete("low")
        await until(lambda: phases(cluster) == [ends])
        assert leaving(cluster, "low") is False
        if ends == "Done":
            assert await cluster.place(scheduler, "high") == "n0"
        await until(lambda: not scheduler.ledger.promises)
        assert {entry.grant.name for entry in scheduler.ledger.entries()} == (
            {"high"} if ends == "Done" else {"low"}
        )
