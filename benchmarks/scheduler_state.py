"""What a scheduler holds of a large cluster, and how long taking it keeps the loop: no NATS, and no
API server.

Lists are made and read as in `resident`. A process of its own takes them as a scheduler that leads
does, and hints of all nodes, three times. Another task takes its turn whenever it can: the longest
time between two of its turns is what others would have waited. Times are of the process; garbage is
collected as in a service.

    .venv/bin/python benchmarks/scheduler_state.py --nodes 10000

For each phase seconds of processor time, ms of the longest piece that nothing interrupts and of the
longest collection of garbage, and MB that are resident after it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from msgspec.structs import replace

from benchmarks.digests import REGISTRY, rss_mb
from benchmarks.resident import Frames, PagedObjects, write
from benchmarks.scale_cluster import A_NAMESPACE, CARDS, CLUSTER, SIGNER
from tessera_core.reports.agents import AgentReports
from tessera_core.slices import Slices, for_each
from tessera_core.trust.grants import published_key
from tessera_runtime.bus.api import Message
from tessera_runtime.garbage import open_garbage_collector
from tessera_runtime.slice_runner import in_slices
from tessera_scheduler.cache.hints import HintCache, HintSettings
from tessera_scheduler.cache.nodes import NodeCache, NodeSummary
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_scheduler.scheduler import Scheduler
from tessera_schema.annotation_keys import SIGNING_KEYS
from tessera_schema.messages.envelope import Envelope
from tessera_schema.messages.hints import CardHint, ClassWant, NodeHints, encode_hints
from tests.scheduler.fake_cluster import HOME, FakeCluster, leading

ROUNDS: Final = 3
"""Hints of each node."""


class Phases:
    """Prints a row for each phase."""

    def __init__(self) -> None:
        self._collecting_s = self._longest_s = 0.0
        gc.callbacks.append(self._on_collection)

    async def run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of a phase while others wait for their turns."""
        self._longest_s = kept_s = 0.0
        began = turn = time.process_time()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work, name=name)
            while not task.done():
                await asyncio.sleep(0)
                now = time.process_time()
                kept_s, turn = max(kept_s, now - turn), now
        print(
            f"| {name} | {turn - began:.1f} | {1e3 * kept_s:.0f} | {1e3 * self._longest_s:.1f} | "
            f"{rss_mb():.0f} |", flush=True,
        )  # fmt: skip

    def _on_collection(self, phase: str, _: dict[str, Any]) -> None:
        now = time.process_time()
        if phase == "start":
            self._collecting_s = now
        else:
            self._longest_s = max(self._longest_s, now - self._collecting_s)


def hints_of(names: list[str], sequence: int) -> Iterator[Message]:
    """What a rebalancer publishes of these nodes."""
    for number, node in enumerate(names):
        cards = tuple(
            CardHint(
                card=f"{node}-{index}", busy_percent=60.1 + number % 7, idle_memory_bytes=2 << 30,
                confidence=0.9, expected_percent=88.1, prices=(1, 3, 9, 20, 41), holders=2,
            )
            for index in range(CARDS)
        )  # fmt: skip
        want = ClassWant(namespace=f"team-{number // A_NAMESPACE}", wanted_percent=33.1)
        hints = NodeHints(node=node, at=time.time(), cards=cards, wants=(want,))
        envelope = Envelope(
            id=f"{node}-{sequence}", source="/tessera/rebalancer/r", type="dev.tessera.hints",
            time=datetime.now(UTC).isoformat(), epoch=1, sequence=sequence,
        )  # fmt: skip
        yield Message(subject="hints", envelope=envelope, data=encode_hints(hints))


def pods_taken(scheduler: Scheduler, found: list[PodSummary], at: float) -> Slices[None]:
    """As `PodHandler` takes them."""
    yield from scheduler.pod_cache.on_list(found, at, at)
    hosts = scheduler.packing.hosts
    yield from for_each(found, lambda item: hosts.hold(item.uid, item.node, item.host))
    if scheduler.preemption is not None:
        yield from scheduler.preemption.on_pod_list(found)


async def read(folder: Path) -> None:
    """Read what was written, and print what it costs."""
    phases, cluster = Phases(), FakeCluster(1)
    keys = {"metadata": {"name": SIGNING_KEYS}, "data": dict([published_key(SIGNER.public)])}
    cluster.make(f"/api/v1/namespaces/{HOME}/configmaps", keys)
    with open_garbage_collector() as garbage:
        async with leading(cluster) as scheduler:
            reports = AgentReports(CLUSTER, REGISTRY.vendors, lambda *_: None)
            cache = NodeCache(REGISTRY, scheduler.ledger, reports, report_s=90)
            metrics = SchedulerMetrics()
            hints = HintCache(
                scheduler.ledger, HintSettings(), scheduler.monotonic_clock, metrics, lambda: None
            )
            names: list[str] = []

            async def nodes() -> None:
                def take(raw: bytes) -> None:
                    summary: NodeSummary = replace(cache.read(raw), heartbeats={})
                    cache.on_update(summary)
                    names.append(summary.name)

                await in_slices(for_each(PagedObjects(Frames(folder / "nodes")), take))

            async def pods() -> None:
                found: list[PodSummary] = []
                listed, read_pod = PagedObjects(Frames(folder / "pods")), scheduler.pod_reader.read
                await in_slices(for_each(listed, lambda raw: found.append(read_pod(raw))))
                now = asyncio.get_running_loop().time()
                await in_slices(pods_taken(scheduler, found, now))

            async def all_garbage() -> None:
                garbage.collect_all()

            async def received(sequence: int) -> None:
                for message in hints_of(names, sequence):
                    hints.receive(message, time.time())
                    await asyncio.sleep(0)

            await phases.run("nothing was read", asyncio.sleep(0))
            await phases.run("nodes", nodes())
            await phases.run("pods", pods())
            await phases.run("the same pods again", pods())
            await phases.run("all garbage, once", all_garbage())
            for number in range(ROUNDS):
                await phases.run("hints of all nodes", received(number))
            print(f"{len(list(scheduler.ledger.entries()))} pods, {hints.remembered} nodes")


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=10, help="on each node")
    parser.add_argument("--of", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.of:
        asyncio.run(read(Path(options.of)))
        return
    with tempfile.TemporaryDirectory(prefix="scheduler-") as folder:
        asyncio.run(write(Path(folder), options.nodes, options.pods))
        print(f"load of the machine {os.getloadavg()[0]:.0f}")
        print("| phase | s | longest piece, ms | longest collection, ms | RSS, MB |")
        print("| --- " * 5 + "|", flush=True)
        subprocess.run([sys.executable, __file__, "--of", folder], check=True)  # noqa: S603  (this file)


if __name__ == "__main__":
    main()
