"""What queues have used is not forgotten when the leader is killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tessera_embedded.apiserver.faults import Cut, InjectedFault
from tessera_scheduler.gangs.queue_history import ENTRY, EVERY_S, HISTORY
from tessera_scheduler.scheduler import Scheduler
from tests.scheduler.gangs.gang_cluster import starting_whole
from tests.scheduler.gangs.test_queues_hold import QueueCluster

pytestmark = pytest.mark.looptime

ON: dict[str, Any] = {"history_weight": 1, "history_half_life_s": 60}
MUCH = 0.4
"""Of its weight, that a queue loses in some minutes with all cards."""
MAPS = "/api/v1/namespaces/tessera-system/configmaps"


def a_cluster() -> QueueCluster:
    cluster = QueueCluster()
    for queue in "ab":
        cluster.queue(queue, "4")
    cluster.pod_group("day", 4, queue="a")
    return cluster


@asynccontextmanager
async def led(cluster: QueueCluster) -> AsyncGenerator[Scheduler]:
    """A scheduler that leads, and that writes nothing when it ends: as one that is killed."""
    async with starting_whole(cluster, ON) as scheduler:
        yield scheduler


async def a_day(cluster: QueueCluster) -> None:
    """One queue has all cards for a while under a leader, which is killed."""
    async with led(cluster) as scheduler:
        cluster.members("day", *range(4))
        await cluster.schedule(scheduler, 5)
        await asyncio.sleep(3 * EVERY_S)
        assert lost(scheduler)["a"] > MUCH


def lost(scheduler: Scheduler) -> dict[str, float]:
    """The part of its weight that each queue has lost."""
    assert scheduler.gangs is not None
    return {view.key.name: view.share.lost for view in scheduler.gangs.view_queues()}


def stored(cluster: QueueCluster) -> str:
    text: str = json.loads(cluster.store.handle("GET", f"{MAPS}/{HISTORY}").body)["data"][ENTRY]
    return text


def store(cluster: QueueCluster, text: str) -> None:
    cluster.call("PATCH", f"{MAPS}/{HISTORY}", {"data": {ENTRY: text}})


async def test_a_replica_that_takes_over_goes_on_with_it() -> None:
    cluster = a_cluster()
    await a_day(cluster)
    async with led(cluster) as scheduler:
        await asyncio.sleep(10)
        assert lost(scheduler)["a"] > MUCH
        assert lost(scheduler)["b"] == 0


@pytest.mark.parametrize("text", ["", "{", '{"version": 1}', "null"])
async def test_one_that_cannot_be_read_is_left_out_and_written_again(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = a_cluster()
    await a_day(cluster)
    store(cluster, text)
    async with led(cluster) as scheduler:
        await asyncio.sleep(10)
        assert lost(scheduler)["a"] < MUCH / 2
        assert "history of queues begins again" in caplog.text
        await asyncio.sleep(EVERY_S)
        assert json.loads(stored(cluster))["version"] == 1


async def test_that_of_a_newer_release_is_left_as_it_is() -> None:
    cluster = a_cluster()
    await a_day(cluster)
    store(cluster, newer := '{"version": 2}')
    async with led(cluster) as scheduler:
        await asyncio.sleep(10)
        assert lost(scheduler)["a"] < MUCH / 2
        await asyncio.sleep(2 * EVERY_S)
        assert stored(cluster) == newer


async def test_an_api_server_that_does_not_answer_is_called_again() -> None:
    cluster = a_cluster()
    await a_day(cluster)
    fault = InjectedFault("GET", rf".*/configmaps/{HISTORY}", Cut(after=False), times=2)
    cluster.kube.faults.add(fault)
    async with led(cluster) as scheduler:
        await asyncio.sleep(5)
        assert lost(scheduler)["a"] < MUCH / 2
        await asyncio.sleep(25)
        assert lost(scheduler)["a"] > MUCH


async def test_it_is_written_once_a_minute_at_most_and_by_the_leader_alone() -> None:
    cluster = a_cluster()
    async with led(cluster) as scheduler:
        before = scheduler.monotonic_clock.time()
        versions = set[str]()
        for _ in range(150):
            found = cluster.store.handle("GET", f"{MAPS}/{HISTORY}")
            if found.code == 200:
                versions.add(json.loads(found.body)["metadata"]["resourceVersion"])
            await asyncio.sleep(1)
        assert 2 < len(versions) <= (scheduler.monotonic_clock.time() - before) / EVERY_S + 1


async def test_nothing_is_written_where_the_past_does_not_count() -> None:
    cluster = a_cluster()
    async with starting_whole(cluster):
        await asyncio.sleep(2 * EVERY_S)
        assert cluster.store.handle("GET", f"{MAPS}/{HISTORY}").code == 404
