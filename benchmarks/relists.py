"""Lists of pods against the loops' budgets: 50 ms in the scheduler, 200 ms in others, with 100,000
pods on 10,000 nodes x 8 cards.

Summaries are made in memory and handed to what the services' watches hand them to: the scheduler's
pod cache and the quota monitor's pods. Another task takes its turn whenever it can: the longest
time between two of its turns is what others would have waited. Times are of the process; garbage is
collected as in a service.

    .venv/bin/python benchmarks/relists.py [--nodes 10000] [--pods 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.card_nodes import CARDS, put_nodes
from tessera_core.kube.host_requests import Host
from tessera_core.ledger.ledger import Ledger
from tessera_core.slices import Slices
from tessera_quota.pods import QuotaPods, QuotaPodSummary
from tessera_runtime.garbage import open_garbage_collector
from tessera_runtime.slice_runner import in_slices
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_schema.grants import Grant, Share
from tests.scheduler.fake_cluster import FakeCluster, leading

GIB = 1 << 30
T = TypeVar("T")
GONE = 20
"""One pod of so many is missing in the last list."""


def grant(number: int, nodes: int) -> Grant:
    """A gibibyte of one card."""
    node, index = number % nodes, number // nodes % CARDS
    share = Share(
        container="c", position=0, vendor="nvidia", dialect="hami", card=f"c{node}-{index}",
        index=index, memory_bytes=GIB, cores_percent=5,
    )  # fmt: skip
    name = f"p{number}"
    return Grant(
        uid=name, namespace=f"team-{number % 1000}", name=name, node=f"n{node}", shares=(share,)
    )


async def taken(work: Slices[None]) -> tuple[float, float]:
    """Seconds that a list took in all, and the longest for which nothing else ran."""
    longest = 0.0
    began = turn = time.process_time()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(in_slices(work, time.process_time), name="list")
        while not task.done():
            await asyncio.sleep(0)
            now = time.process_time()
            longest, turn = max(longest, now - turn), now
    return turn - began, longest


async def measure(
    service: str, listed: Callable[[], list[T]], take: Callable[[list[T], float], Slices[None]]
) -> None:
    """Print a row for each list: the first, the same again, and one that lacks some pods."""
    now = asyncio.get_running_loop().time()
    for number, name in enumerate(("the first", "the same again", "without one in twenty")):
        items = listed()
        if number == 2:
            items = [item for at, item in enumerate(items) if at % GONE]
        all_s, longest_s = await taken(take(items, now + 10 * number))
        print(f"| {service} | {name} | {all_s:.1f} | {longest_s * 1000:.0f} |", flush=True)


async def of_scheduler(nodes: int, pods: int) -> None:
    """The scheduler's pod cache, on a scheduler that leads."""

    def listed() -> list[PodSummary]:
        return [
            PodSummary(
                uid=one.uid, namespace=one.namespace, name=one.name, node=one.node, grant=one,
                host=Host(1000, GIB),
            )
            for one in (grant(number, nodes) for number in range(pods))
        ]  # fmt: skip

    async with leading(FakeCluster(1)) as scheduler:
        put_nodes(scheduler.ledger, nodes, "nvidia")
        cache = scheduler.pod_cache
        await measure("scheduler", listed, lambda items, at: cache.on_list(items, at, at + 1))
        expected = pods - -(-pods // GONE)
        if sum(1 for _ in scheduler.ledger.entries()) != expected:
            sys.exit("the ledger does not have what was listed last")


async def of_quota(nodes: int, pods: int) -> None:
    """The quota monitor's pods."""

    def listed() -> list[QuotaPodSummary]:
        return [
            QuotaPodSummary(
                uid=one.uid, namespace=one.namespace, name=one.name, grant=one, runs=True
            )
            for one in (grant(number, nodes) for number in range(pods))
        ]  # fmt: skip

    ledger = Ledger()
    put_nodes(ledger, nodes, "nvidia")
    taken_in = QuotaPods(ledger)
    await measure("quota monitor", listed, lambda items, at: taken_in.on_list(items, at, at + 1))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=100_000)
    options = parser.parse_args()
    print("| service | list | all, s | longest, ms |\n|" + " --- |" * 4)
    with open_garbage_collector():
        for run in (of_scheduler, of_quota):
            asyncio.run(run(options.nodes, options.pods))


if __name__ == "__main__":
    main()
