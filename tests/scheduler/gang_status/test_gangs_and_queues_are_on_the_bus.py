"""Changes of gangs and states of queues come on the bus, once each, from the leader alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tessera_runtime.bus.streams import StreamLayout
from tessera_scheduler.gangs.settings import GangWrite
from tessera_scheduler.scheduler import Scheduler
from tessera_schema.messages.gang_events import (
    GangChange,
    GangChanged,
    decode_gang,
    decode_queue,
    gang_subject,
)
from tessera_schema.queue_states import QueueState
from tests.scheduler.fake_cluster import leading, until
from tests.scheduler.gangs.gang_cluster import GangCluster, whole
from tests.scheduler.gangs.test_queues_hold import QueueCluster

pytestmark = pytest.mark.looptime
NONE: Any = {"write": (GangWrite.NONE,)}


def gangs(cluster: GangCluster) -> list[GangChanged]:
    return [decode_gang(message.data) for message in cluster.bus.said("tessera.v1.*.gang.>")]


def changes(cluster: GangCluster) -> list[GangChange]:
    return [event.what for event in gangs(cluster)]


def queues(cluster: GangCluster, name: str) -> list[QueueState]:
    said = (decode_queue(message.data) for message in cluster.bus.said("tessera.v1.*.queue.>"))
    return [state for state in said if state.name == name]


def metrics(scheduler: Scheduler) -> list[str]:
    return scheduler.metrics.registry.text().decode().splitlines()


async def test_a_gangs_way_from_its_first_pod_to_its_end() -> None:
    cluster = GangCluster(cards=2)
    async with leading(cluster, config=whole(**NONE)) as scheduler:
        cluster.pod_group("g", 2)
        cluster.members("g", 1)
        await until(lambda: changes(cluster), 10)
        waiting = gangs(cluster)[0]
        assert (waiting.gang, waiting.namespace, waiting.name) == (
            "volcano/default/g", "default", "g",
        )  # fmt: skip
        assert (waiting.min, waiting.members, waiting.bound) == (2, 1, 0)
        assert waiting.message == "gang default/g waits: default/g has 1 of 2 members"
        cluster.members("g", 2)
        await cluster.schedule(scheduler, 8)
        await until(lambda: GangChange.STARTED in changes(cluster), 10)
        cluster.delete("g1")
        await until(lambda: GangChange.BROKEN in changes(cluster), 10)
        assert gangs(cluster)[-1].bound == 1
        cluster.delete("g2")
        await until(lambda: GangChange.ENDED in changes(cluster), 10)
    assert [each for each in changes(cluster) if each is not GangChange.WAITING] == [
        GangChange.RESERVED, GangChange.STARTED, GangChange.BROKEN, GangChange.ENDED,
    ]  # fmt: skip
    assert gangs(cluster)[-1].members == 0


async def test_a_barrier_that_is_missed_is_published() -> None:
    cluster = GangCluster(cards=2)
    async with leading(cluster, config=whole(barrier_s=3, **NONE)) as scheduler:
        cluster.pod_group("g", 2)
        cluster.members("g", 1, 2)
        await until(lambda: cluster.filter(scheduler, "g1").node_names, 5)
        assert await cluster.bind(scheduler, "g1", "n0")
        await until(lambda: GangChange.MISSED in changes(cluster), 10)
    missed = next(event for event in gangs(cluster) if event.what is GangChange.MISSED)
    assert "1 of 2 members arrived, missing default/g2" in missed.message


async def test_a_queue_is_published_when_it_changes_and_each_minute() -> None:
    cluster = QueueCluster()
    cluster.queue("q", "2")
    cluster.pod_group("a", 2, queue="q")
    cluster.pod_group("b", 2, queue="q")
    async with leading(cluster, config=whole(**NONE)) as scheduler:
        cluster.members("a", 1, 2)
        await cluster.schedule(scheduler, 6)
        cluster.members("b", 1, 2)
        await until(lambda: queues(cluster, "q") and queues(cluster, "q")[-1].waiting_gangs, 20)
        last = queues(cluster, "q")[-1]
        (cards,) = (amount for amount in last.amounts if amount.what == "cards")
        assert (cards.vendor, cards.used, cards.cap) == ("nvidia", 2, 2)
        assert (last.group, last.kind) == ("scheduling.volcano.sh", "Queue")
        assert (last.waiting_gangs, last.waiting_pods) == (1, 2)
        assert last.waits_since > 0
        assert "default/b" not in str(cluster.bus.said("tessera.v1.*.queue.>"))
        labels = '{group="scheduling.volcano.sh",queue="q"}'
        assert f"tessera_scheduler_queue_waiting_gangs{labels} 1.0" in metrics(scheduler)
        assert f"tessera_scheduler_queue_waiting_pods{labels} 2.0" in metrics(scheduler)
        of_cards = '{group="scheduling.volcano.sh",queue="q",resource="cards",vendor="nvidia"} 2.0'
        assert f"tessera_scheduler_queue_used{of_cards}" in metrics(scheduler)
        assert f"tessera_scheduler_queue_cap{of_cards}" in metrics(scheduler)
        await asyncio.sleep(10)
        count = len(queues(cluster, "q"))
        await asyncio.sleep(30)
        assert len(queues(cluster, "q")) <= count + 1
        await asyncio.sleep(70)
        assert len(queues(cluster, "q")) > count


@pytest.mark.parametrize("name", ["a b", "a.b.*", ">", "", "ä\n", "x" * 9000])
def test_whatever_users_write_as_a_gangs_name_the_subject_is_one_that_is_taken(name: str) -> None:
    event = GangChanged(
        what=GangChange.WAITING, gang=f"koordinator/team/{name}", namespace="team", name=name,
        min=2, members=1, bound=0,
    )  # fmt: skip
    subject = gang_subject("c", event)
    assert len(subject.split(".")) == 7
    assert StreamLayout("c").stream_of(subject).name == "TESSERA_GANG"
    renamed = replace(event, name="train")
    assert gang_subject("c", renamed) == "tessera.v1.c.gang.team.train.waiting"
