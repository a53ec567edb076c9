"""What a queue has used counts where that is switched on: the other one is served first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tessera_runtime.errors import BadSettings
from tessera_runtime.settings import load
from tessera_scheduler.settings import SchedulerSettings
from tests.scheduler.gangs.gang_cluster import starting_whole
from tests.scheduler.gangs.test_queues_hold import QueueCluster

ON: dict[str, Any] = {"history_weight": 1, "history_half_life_s": 60}


@pytest.mark.looptime
@pytest.mark.parametrize(("settings", "served"), [({}, "m"), (ON, "n")])
async def test_the_queue_that_had_all_cards_comes_second(
    settings: dict[str, Any], served: str
) -> None:
    cluster = QueueCluster()
    for queue in "ab":
        cluster.queue(queue, "4")
    for gang, queue in (("day", "a"), ("m", "a"), ("n", "b")):
        cluster.pod_group(gang, 4, queue=queue)
    async with starting_whole(cluster, settings) as scheduler:
        cluster.members("day", *range(4))
        await cluster.schedule(scheduler, 5)
        assert len(cluster.bound()) == 4
        await asyncio.sleep(30)
        for name in cluster.bound():
            cluster.delete(name)
        await asyncio.sleep(6)
        assert scheduler.gangs is not None
        lost = {view.key.name: view.share.lost for view in scheduler.gangs.view_queues()}
        assert lost["b"] == 0
        assert (0.1 < lost["a"] < 0.4) if settings else lost["a"] == 0
        cluster.members("m", *range(4))
        cluster.members("n", *range(4))
        await cluster.schedule(scheduler, 5)
        assert {name[0] for name in cluster.bound()} == {served}


def test_the_past_does_not_count_unless_it_is_switched_on() -> None:
    assert load(SchedulerSettings, {}).gangs.history is None
    assert load(SchedulerSettings, {"TESSERA_GANGS_HISTORY_WEIGHT": "0.5"}).gangs.history


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TESSERA_GANGS_HISTORY_WEIGHT", "-1"),
        ("TESSERA_GANGS_HISTORY_WEIGHT", "101"),
        ("TESSERA_GANGS_HISTORY_WEIGHT", "nan"),
        ("TESSERA_GANGS_HISTORY_HALF_LIFE_S", "0"),
        ("TESSERA_GANGS_HISTORY_HALF_LIFE_S", "59"),
        ("TESSERA_GANGS_HISTORY_HALF_LIFE_S", "inf"),
    ],
)
def test_what_is_out_of_bounds_is_refused_with_the_variable(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=name):
        load(SchedulerSettings, {name: value})
