"""What a cluster has in all is worked out once in a while, and at once when nodes come or go."""

from __future__ import annotations

import asyncio

import pytest

from tessera_core.gang_scheduling.queues import ENTITLED_S
from tessera_core.gangs.queues import QueueDimension
from tessera_core.ledger.ledger import Ledger
from tessera_runtime.clock import SystemClock
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.gangs.cluster_totals import ClusterTotals
from tessera_schema.kube import Node
from tessera_testing.builders import a_card, a_node

pytestmark = pytest.mark.looptime
CARDS, CPU = QueueDimension("acme", "cards"), QueueDimension("", "cpu")


async def test_amounts_of_all_nodes() -> None:
    ledger, nodes = Ledger(), dict[str, Node]()
    times = 0

    def all_nodes() -> list[Node]:
        nonlocal times
        times += 1
        return list(nodes.values())

    clock = MonotonicClock(SystemClock(), asyncio.get_running_loop())
    totals = ClusterTotals(ledger, all_nodes, clock)
    assert dict(totals()) == {}
    nodes["n"] = a_node("n", capacity={"cpu": 4})
    ledger.put_node("n", [a_card("c", 0)])
    assert (totals()[CARDS], totals()[CPU]) == (1, 4000)
    assert times == 2
    nodes["m"] = a_node("m", capacity={"cpu": 2})  # has no cards
    assert totals()[CPU] == 4000
    await asyncio.sleep(ENTITLED_S)
    assert totals()[CPU] == 6000
    assert times == 3
