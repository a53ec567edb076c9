"""What the services bear: a cluster of so many nodes and pods, as agents and watches publish it.

The services run as processes of their own, as in a cluster, with a real NATS server between them
and the agents, which are all in one more process. The API server is the embedded one, in this
process; pods are replaced and Leases renewed all the time, and the scheduler is asked for places.
Of 100 nodes one has a contended card, and no card anywhere rests; for every 100 nodes a pod waits
for a whole card, and to move a pod costs too much. So plans are sought and not found, which is what
costs most.

    .venv/bin/python benchmarks/scale.py --nodes 500 1000 --seconds 60

For each size a table, and which budgets hold. It ends with the first size at which something
breaks: messages are lost, or a service is not ready or ends.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.scale_agents import Sent
from benchmarks.scale_cluster import LargeCluster
from benchmarks.scale_programs import Program, environment
from benchmarks.scale_service import Second
from tessera_embedded.apiserver import open_apiserver
from tessera_embedded.nats_server import open_nats

HERE: Final = Path(__file__).parent
SETTLE_S: Final = 75.0
"""Seconds after everything is ready, and agents publish, that do not count: hints are believed
after about a minute."""


LATE_S: Final = 4.0
"""Agents that are later than that are not at fault: the machine is too slow for the size."""
COLUMNS: Final = (
    "messages/s", "most lag, s", "loop away, ms", "of it at work, ms", "RSS, MB", "cores",
)  # fmt: skip


class Budget(Struct, frozen=True):
    """What a service may take."""

    rss_mb: float
    blocked_s: float


BUDGETS: Final[Mapping[str, Budget]] = {
    "scheduler": Budget(600, 0.05),
    "rebalancer": Budget(500, 0.2),
    "quota": Budget(300, 0.2),
}


class Outcome(Struct, kw_only=True):
    """What a service did while it counted."""

    name: str
    rss_mb: float
    cpu: float
    """Of a core."""
    messages: float
    """Received, a second."""
    lag_s: float
    blocked_s: float
    busy_s: float

    @property
    def within(self) -> bool:
        """Whether it keeps its budgets; of the loop by processor time."""
        budget = BUDGETS[self.name]
        return self.rss_mb <= budget.rss_mb and self.busy_s <= budget.blocked_s


def outcome(name: str, seconds: Sequence[Second]) -> Outcome:
    """Of one service."""
    span_s = seconds[-1].at - seconds[0].at
    return Outcome(
        name=name,
        rss_mb=max(each.rss_mb for each in seconds),
        cpu=(seconds[-1].cpu_s - seconds[0].cpu_s) / span_s,
        messages=sum(each.messages for each in seconds[1:]) / span_s,
        lag_s=max(each.lag_s for each in seconds),
        blocked_s=max(each.blocked_s for each in seconds),
        busy_s=max(each.busy_s for each in seconds),
    )


class Placing:
    """Places pods through the extender, one after another."""

    def __init__(self, cluster: LargeCluster, url: str) -> None:
        self.took_s: list[float] = []
        """Of calls of filter."""
        self.failed = 0
        self._cluster = cluster
        self._url = url

    async def run(self) -> None:
        """Four pods a second at most, until cancelled."""
        names = list(self._cluster.layout.nodes)
        async with aiohttp.ClientSession(self._url) as session:
            while True:
                pod = self._cluster.waiting_pod()
                meta, began = pod["metadata"], time.perf_counter()
                async with session.post("/filter", json={"Pod": pod, "NodeNames": names}) as answer:
                    found = (await answer.json()).get("NodeNames") or []
                self.took_s.append(time.perf_counter() - began)
                body = {
                    "PodName": meta["name"], "PodNamespace": meta["namespace"],
                    "PodUID": meta["uid"], "Node": found[0] if found else "",
                }  # fmt: skip
                async with session.post("/bind", json=body) as answer:
                    self.failed += bool((await answer.json())["Error"])
                self._cluster.delete(meta["namespace"], meta["name"])
                await asyncio.sleep(0.25)


async def a_size(nodes: int, pods: int, seconds: float) -> str:
    """Measure one size, and print it. Why it broke; empty when it did not."""
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        folder = Path(name)
        async with (
            open_nats(folder / "nats") as nats,
            open_apiserver(folder / "api", keep=False) as server,
            AsyncExitStack() as stack,
        ):
            cluster, began = LargeCluster(server.store, nodes, pods), time.monotonic()
            await cluster.fill()
            print(f"\n{nodes} nodes, {pods} pods: made in {time.monotonic() - began:.0f} s")
            layout = folder / "layout"
            layout.write_bytes(msgspec.json.encode(cluster.layout))
            programs = {each: Program(each, folder) for each in BUDGETS}
            for each, program in programs.items():
                environ = environment(server, nats.url, program)
                argv = str(HERE / "scale_service.py"), each, str(program.figures)
                await stack.enter_async_context(program.running(*argv, **environ))
            began = time.monotonic()
            for program in programs.values():
                await program.ready()
                took = time.monotonic() - began
                print(f"{program.name} was ready after {took:.0f} s", flush=True)
            agents = Program("agents", folder)
            where = nats.url, str(layout), str(agents.figures)
            await stack.enter_async_context(agents.running(str(HERE / "scale_agents.py"), *where))
            return await _measured(cluster, [*programs.values(), agents], seconds)


async def _measured(cluster: LargeCluster, programs: Sequence[Program], seconds: float) -> str:
    services, agents = programs[:-1], programs[-1]
    await agents.begun()
    placing = Placing(cluster, await services[0].url("extender"))
    async with asyncio.TaskGroup() as group:
        churn = group.create_task(cluster.churn(len(cluster.layout.nodes) / 100), name="churn")
        places = group.create_task(placing.run(), name="places")
        await asyncio.sleep(SETTLE_S)
        placing.took_s.clear()
        since, changes = time.time(), cluster.changes
        await asyncio.sleep(seconds)
        churn.cancel()
        places.cancel()
    changes = round((cluster.changes - changes) / seconds)
    ended = next((each.problem() for each in programs if each.problem()), "")
    if ended:
        return ended
    sent = agents.seconds(Sent, since)
    load = os.getloadavg()[0]
    print(
        f"load of the machine {load:.0f}; API server: {changes} objects changed a second; ", end=""
    )
    return _report([outcome(p.name, p.seconds(Second, since)) for p in services], sent, placing)


def _report(found: Sequence[Outcome], sent: Sequence[Sent], placing: Placing) -> str:
    """Print the figures. What broke; empty where nothing did."""
    rate = sum(each.messages for each in sent) / (sent[-1].at - sent[0].at + 1)
    late_s = max(each.late_s for each in sent)
    ranked = sorted(placing.took_s)
    print(
        f"agents: {rate:.0f} messages a second, {late_s:.2f} s late at most; filter: "
        f"{len(ranked)} calls, median {1e3 * statistics.median(ranked):.1f} ms, 99 % within "
        f"{1e3 * ranked[int(len(ranked) * 0.99) - 1]:.1f} ms, {placing.failed} not bound"
    )
    print(f"| service | {' | '.join(COLUMNS)} |")
    print("| --- " * (len(COLUMNS) + 1) + "|")
    for one in found:
        print(
            f"| {one.name}{'' if one.within else ', over budget'} | {one.messages:.0f} "
            f"| {one.lag_s:.2f} | {1e3 * one.blocked_s:.0f} | {1e3 * one.busy_s:.0f} "
            f"| {one.rss_mb:.0f} | {one.cpu:.2f} |",
            flush=True,
        )
    lost = [
        f"{one.name} received {one.messages:.0f} of {rate:.0f} messages a second"
        for one in found
        if one.name != "scheduler" and one.messages < 0.98 * rate
    ]
    behind = [f"agents are {late_s:.1f} s late" for _ in sent[:1] if late_s > LATE_S]
    return "; ".join(lost + behind)


async def run(sizes: Sequence[int], pods: int, seconds: float) -> int:
    """Measure the sizes in turn; 1 when one broke."""
    for nodes in sizes:
        broke = await a_size(nodes, nodes * pods, seconds)
        if broke:
            print(f"it breaks at {nodes} nodes: {broke}")
            return 1
    return 0


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 1000])
    parser.add_argument("--pods", type=int, default=10, help="on each node")
    parser.add_argument("--seconds", type=float, default=60, help="of each measurement")
    chosen = parser.parse_args()
    sys.exit(asyncio.run(run(chosen.nodes, chosen.pods, chosen.seconds)))


if __name__ == "__main__":
    main()
