"""Priority takes within a queue, and among pods of no queue: nothing goes from one to another."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from tessera_scheduler.preemption.settings import PreemptionSettings, PreemptionSwitch
from tests.scheduler.fake_cluster import leading, until
from tests.scheduler.gangs.gang_cluster import WHOLE, whole
from tests.scheduler.gangs.test_queues_hold import QueueCluster
from tests.scheduler.preemption.test_explain_names_victims import explained
from tests.scheduler.preemption.test_pods_are_evicted import (
    MAY_GO,
    PROFILE,
    a_cluster,
    leaving,
    on,
    plans,
)

pytestmark = pytest.mark.looptime
QUEUE = "scheduling.volcano.sh/queue-name"
QUOTA = "quota.scheduling.koordinator.sh/name"


@pytest.mark.parametrize(("low", "high", "goes"), [
    ({QUEUE: "a"}, {QUEUE: "a"}, True),
    ({QUEUE: "a"}, {QUEUE: "b"}, False),
    ({QUEUE: "a"}, {}, False),
    ({}, {QUEUE: "a"}, False),
])  # fmt: skip
async def test_a_pod_evicts_within_the_queue_that_it_names(
    low: dict[str, str], high: dict[str, str], *, goes: bool
) -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        cluster.pod("low", WHOLE, annotations={**MAY_GO, **low}, priority=1)
        assert await cluster.place(scheduler, "low")
        cluster.pod("high", WHOLE, annotations=high, priority=10, **PROFILE)
        assert cluster.filter(scheduler, "high").node_names == ()
        await asyncio.sleep(120)
        assert leaving(cluster, "low") is goes
        assert len(plans(cluster)) == goes


async def test_a_label_names_a_quota() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        cluster.pod("low", WHOLE, annotations=MAY_GO, priority=1)
        cluster.call("PATCH", cluster.path("low"), {"metadata": {"labels": {QUOTA: "team"}}})
        assert await cluster.place(scheduler, "low")
        cluster.pod("high", WHOLE, priority=10, **PROFILE)
        assert cluster.filter(scheduler, "high").node_names == ()
        await asyncio.sleep(120)
        assert not leaving(cluster, "low")


async def test_the_cap_of_the_queue_holds_as_it_would_be_then() -> None:
    """A card is free, but for the cap a pod of the queue would have to go."""
    cluster = QueueCluster(cards=2)
    cluster.queue("q", "1")
    config = replace(
        whole(), preemption=PreemptionSettings(mode=PreemptionSwitch.SHOW, protect_s=0)
    )
    async with leading(cluster, config=config) as scheduler:
        cluster.pod("mine", WHOLE, annotations={**MAY_GO, QUEUE: "q"}, priority=1)
        assert await cluster.place(scheduler, "mine")
        await until(lambda: scheduler.preemption is not None and len(scheduler.preemption.pods))
        cluster.queued("high", priority=10)
        assert not cluster.filter(scheduler, "high").node_names
        text = await explained(cluster, scheduler, "high")
        assert text.startswith("would fit if 1 pod left: default/mine (")


async def test_nobody_goes_where_the_cap_is_below_what_the_queue_would_still_use() -> None:
    """The cap was lowered below what is used: a pod in place of another one is still too much."""
    cluster = QueueCluster(cards=2)
    cluster.queue("q", "1")
    config = replace(
        whole(), preemption=PreemptionSettings(mode=PreemptionSwitch.SHOW, protect_s=0)
    )
    async with leading(cluster, config=config) as scheduler:
        cluster.pod("mine", WHOLE, annotations={**MAY_GO, QUEUE: "q"}, priority=1)
        assert await cluster.place(scheduler, "mine")
        await until(lambda: scheduler.preemption is not None and len(scheduler.preemption.pods))
        cluster.cap("q", "0")
        await asyncio.sleep(5)
        cluster.queued("high", priority=10)
        assert not cluster.filter(scheduler, "high").node_names
        assert "would fit" not in await explained(cluster, scheduler, "high")
