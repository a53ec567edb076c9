"""`tessera explain` says who would have to go for a pod that waits; nobody is evicted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from tessera_embedded.apiserver.faults import Answer
from tessera_scheduler.explain.explanation import Explainer
from tessera_scheduler.preemption.settings import PreemptionSettings, PreemptionSwitch
from tessera_scheduler.scheduler import Scheduler
from tessera_scheduler.visibility.pod_explanations import whole
from tests.scheduler.fake_cluster import REGISTRY, FakeCluster, leading, settings, until

pytestmark = pytest.mark.looptime
WHOLE = 16000
MAY_GO = {"tessera.dev/preemptible": "true"}
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
NOT_DONE = "; not done: preemption is only shown"


def ready_cluster(nodes: int, cards: int = 1) -> FakeCluster:
    """Nodes that kube-scheduler may use."""
    cluster = FakeCluster(nodes, cards)
    for node in cluster.nodes:
        cluster.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": []}})
    return cluster


async def explained(
    cluster: FakeCluster, scheduler: Scheduler, name: str, *, readable: bool = True
) -> str:
    """What `tessera explain` shows of preemption to somebody who may read the namespace or not."""
    explainer = Explainer(
        registry=REGISTRY, ledger=scheduler.ledger, decisions=scheduler.decisions,
        clock=cluster.clock, preemption=scheduler.preemption,
    )  # fmt: skip

    async def may_name(namespaces: Iterable[str]) -> frozenset[str]:
        return frozenset(namespaces) if readable else frozenset()

    return (await whole(explainer, cluster.read(name), may_name)).preemption


async def waiting(cluster: FakeCluster, scheduler: Scheduler, **more: Any) -> None:
    """A pod of priority 10 that has just found no room, on cards that `low` has had for a while."""
    assert await cluster.place(scheduler, "low") == "n0"
    await until(lambda: scheduler.preemption is not None and len(scheduler.preemption.pods))
    await asyncio.sleep(600)
    cluster.pod("high", WHOLE, priority=10, **more)
    assert cluster.filter(scheduler, "high").node_names == ()


async def test_a_pod_of_lower_priority_would_have_to_go() -> None:
    cluster = ready_cluster(1)
    cluster.pod("low", WHOLE, annotations=MAY_GO, priority=1)
    async with leading(cluster) as scheduler:
        await waiting(cluster, scheduler)
        assert await explained(cluster, scheduler, "high") == (
            "would fit if 1 pod left: default/low (priority 1, 10.7 card-minutes lost)" + NOT_DONE
        )
        assert cluster.read("low").metadata.deletion_timestamp is None


async def test_a_pod_that_has_its_cards_has_no_such_line() -> None:
    cluster = ready_cluster(1)
    cluster.pod("low", WHOLE, annotations=MAY_GO)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "low")
        assert await explained(cluster, scheduler, "low") == ""


async def test_names_that_the_caller_may_not_read_are_left_out() -> None:
    cluster = ready_cluster(1)
    cluster.pod("low", WHOLE, annotations=MAY_GO)
    async with leading(cluster) as scheduler:
        await waiting(cluster, scheduler)
        text = await explained(cluster, scheduler, "high", readable=False)
        assert "low" not in text
        assert "1 pod left: a pod of another namespace (priority 0" in text


async def test_a_pod_that_evicts_nobody_says_so() -> None:
    cluster = ready_cluster(1)
    cluster.pod("low", WHOLE, annotations=MAY_GO)
    async with leading(cluster) as scheduler:
        await waiting(cluster, scheduler, preemptionPolicy="Never")
        text = "nobody would be evicted for it: its spec.preemptionPolicy is Never"
        assert await explained(cluster, scheduler, "high") == text + NOT_DONE


async def test_a_disruption_budget_holds() -> None:
    cluster = ready_cluster(1)
    cluster.pod("low", WHOLE, annotations=MAY_GO)
    cluster.make(BUDGETS, {"metadata": {"name": "b"}, "spec": {"selector": {}, "minAvailable": 1}})
    async with leading(cluster) as scheduler:
        await waiting(cluster, scheduler)
        text = await explained(cluster, scheduler, "high")
        assert text == (
            "nobody would be evicted for it: no pod that holds cards may go: 1 guarded by a "
            "disruption budget" + NOT_DONE
        )


async def test_budgets_that_cannot_be_read_are_named() -> None:
    cluster = ready_cluster(1)
    cluster.pod("low", WHOLE, annotations=MAY_GO)
    async with leading(cluster) as scheduler:
        await waiting(cluster, scheduler)
        cluster.fault("GET", ".*/poddisruptionbudgets", Answer(503), 5)
        text = await explained(cluster, scheduler, "high")
        assert "disruption budgets could not be read" in text
        assert "default/low" in text


async def test_processor_that_a_victim_leaves_counts() -> None:
    cluster = ready_cluster(1, cards=2)
    cluster.call("PATCH", "/api/v1/nodes/n0/status", {"status": {"allocatable": {"cpu": "4"}}})
    container = {
        "name": "c", "image": "i",
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "3"}},
    }  # fmt: skip
    cluster.pod("low", annotations=MAY_GO, containers=[container])
    async with leading(cluster) as scheduler:
        assert await cluster.place(scheduler, "low") == "n0"
        await until(lambda: scheduler.preemption is not None and len(scheduler.preemption.pods))
        await asyncio.sleep(600)
        cluster.pod("high", priority=10, containers=[container])
        assert cluster.filter(scheduler, "high", []).node_names in {None, ()}
        assert "would fit if 1 pod left: default/low" in await explained(cluster, scheduler, "high")


async def test_nothing_is_followed_where_it_is_off() -> None:
    cluster = ready_cluster(1)
    cluster.pod("low", WHOLE, annotations=MAY_GO)
    off = replace(settings(), preemption=PreemptionSettings(mode=PreemptionSwitch.OFF))
    async with leading(cluster, config=off) as scheduler:
        await cluster.place(scheduler, "low")
        cluster.pod("high", WHOLE, priority=10)
        cluster.filter(scheduler, "high")
        assert scheduler.preemption is None
        assert await explained(cluster, scheduler, "high") == ""


async def test_a_gang_goes_whole_for_a_pod() -> None:
    cluster = ready_cluster(1, cards=2)
    keys = {
        "gang.scheduling.koordinator.sh/name": "job",
        "gang.scheduling.koordinator.sh/min-available": "2",
        "gang.scheduling.koordinator.sh/match-policy": "waiting-and-running",
    }
    for name in ("a", "b"):
        cluster.pod(name, WHOLE, annotations={**keys, **MAY_GO})
    async with leading(cluster) as scheduler:
        for name in ("a", "b"):
            assert await cluster.place(scheduler, name) == "n0"
        await until(lambda: scheduler.preemption is not None and len(scheduler.preemption.pods))
        await asyncio.sleep(600)
        cluster.pod("high", WHOLE, priority=10)
        assert cluster.filter(scheduler, "high").node_names == ()
        text = await explained(cluster, scheduler, "high")
        assert "2 pods and with them 1 gang left: gang default/job" in text
