"""Pods bound per second through a real kube-scheduler: alone, with an extender that does nothing,
with Tessera, with Tessera and its traces exported, in turn and in the same run.

For each number of nodes and each policy every one of them binds the pods `--rounds` times; rounds
alternate, because runs on a shared machine differ by a fifth. All have the same pods, the same
webhook and the same configuration of kube-scheduler, as far as there is an extender to configure;
`bare` is what a cluster without Tessera does with pods that ask for a processor. Each row ends with
the processor time that each process used for a pod, which depends less on what else runs. The last
line has the medians of the rounds, of the setting in which they are lowest:

    ratio R of_plain Q pods_per_s P    R: to the do-nothing extender, Q: to kube-scheduler alone

    .venv/bin/python benchmarks/throughput.py [--nodes 100 --pods 200 --rounds 1 --policies spread]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.throughput_cluster import KINDS, NAMESPACE, Placing, placing, prepare
from benchmarks.throughput_load import Measured, a_pod, empty, measure
from tessera_embedded.nats_server import NatsServer, open_nats
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.annotation_keys import SCHEDULER
from tests.cluster.plane import Plane, real_plane

CARDS: Final = 8
SHARE: Final = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000", "nvidia.com/gpucores": "2"}
BARE: Final = {"cpu": "10m"}
WARM: Final = 100
"""Pods that are bound before those that count: connections, caches, and what a scheduler that has
run for a while has behind it, such as Tessera's first lesson about what pods ask for (50 pods after
the start, and then every ten minutes)."""
SETTLE_S: Final = 3.0
"""Seconds in which everything comes to rest after them."""


class Options(Struct, frozen=True, kw_only=True):
    """What is measured."""

    nodes: tuple[int, ...]
    pods: int
    rounds: int
    policies: tuple[str, ...]
    clients: int
    kinds: tuple[str, ...]
    variables: Mapping[str, str]


class Bench:
    """One control plane, and what has been measured on it."""

    def __init__(self, options: Options, plane: Plane, kube: Kube, nats: NatsServer) -> None:
        self._options = options
        self._plane, self._kube, self._nats = plane, kube, nats

    async def setting(self, nodes: int, policy: str) -> dict[str, list[Measured]]:
        """All rounds of one setting, by kind."""
        runs: dict[str, list[Measured]] = defaultdict(list)
        for number in range(self._options.rounds):
            for kind in _turned(self._options.kinds, number):
                run = await self._run(kind, policy, f"{nodes}-{policy}-{number}-{kind}")
                runs[kind].append(run)
                print(f"{nodes:5} nodes {policy:8} {kind:10} {_row(run)}", flush=True)
        return runs

    async def _run(self, kind: str, policy: str, name: str) -> Measured:
        options = self._options
        async with placing(
            kind, self._plane, self._kube, self._nats, self._plane.folder / name, options.variables
        ) as program:
            limits, policy = (BARE, "") if kind == "bare" else (SHARE, policy)
            few = [a_pod(f"p{i}", limits, SCHEDULER, policy) for i in range(WARM)]
            await measure(self._kube, NAMESPACE, few, 4)
            await empty(self._kube, NAMESPACE)
            await asyncio.sleep(SETTLE_S)
            pods = [a_pod(f"p{i}", limits, SCHEDULER, policy) for i in range(options.pods)]
            run = await self._measured(program, pods)
            await empty(self._kube, NAMESPACE)
        return run

    async def _measured(self, program: Placing, pods: list[bytes]) -> Measured:
        before, counted = program.cpu_s(), await program.metrics()
        run = await measure(self._kube, NAMESPACE, pods, self._options.clients)
        after, counts = program.cpu_s(), await program.metrics()
        used = {f"{k} ms": (after[k] - before[k]) * 1000 / len(pods) for k in after}
        return replace(run, extra={**used, **_retries(counted, counts)})


def _turned(kinds: Sequence[str], by: int) -> Sequence[str]:
    first = by % len(kinds)
    return (*kinds[first:], *kinds[:first])


def _retries(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Bindings that did not become one at once."""
    grown = {
        name.partition('outcome="')[2].partition('"')[0]: value - before.get(name, 0)
        for name, value in after.items()
        if name.startswith("tessera_scheduler_binds_total")
    }
    return {f"binds {name}": value for name, value in grown.items() if value and name != "bound"}


def _row(run: Measured) -> str:
    extra = "".join(f"  {name} {value:.2f}" for name, value in run.extra.items())
    return (
        f"{run.pods_per_s:6.1f} pods/s  p50 {run.p50_ms:6.0f} ms  p99 {run.p99_ms:6.0f} ms  "
        f"retried {run.retried}{extra}"
    )


def _rate(runs: Sequence[Measured]) -> float:
    return statistics.median(run.pods_per_s for run in runs)


def _as_admin(plane: Plane) -> KubeSettings:
    return KubeSettings(kubeconfig=str(plane.control.kubeconfig), call_s=30, gather_s=0)


async def run(options: Options) -> None:
    """Measure and print."""
    lines: list[tuple[float, float, float]] = []
    for nodes in options.nodes:
        with tempfile.TemporaryDirectory(prefix="tessera-throughput-") as folder:
            async with (
                real_plane(Path(folder), quiet=True) as plane,
                open_nats(Path(folder) / "nats") as nats,
                open_kube(_as_admin(plane)) as kube,
            ):
                await prepare(kube, nodes, CARDS)
                bench = Bench(options, plane, kube, nats)
                for policy in options.policies:
                    runs = await bench.setting(nodes, policy)
                    rates = {kind: _rate(runs[kind]) for kind in options.kinds}
                    medians = "  ".join(f"{kind} {rate:.1f}" for kind, rate in rates.items())
                    print(f"{nodes:5} nodes {policy:8} medians     {medians}", flush=True)
                    _say_cpu(f"{nodes:5} nodes {policy:8} cpu", runs)
                    if rates.keys() >= set(KINDS[:3]):
                        lines.append(_ratios(rates))
    if lines:
        ratio, of_plain, rate = (min(values) for values in zip(*lines, strict=True))
        print(f"ratio {ratio:.3f} of_plain {of_plain:.3f} pods_per_s {rate:.1f}")


def _ratios(rates: Mapping[str, float]) -> tuple[float, float, float]:
    rate = rates["tessera"]
    return rate / rates["do-nothing"], rate / rates["plain"], rate


def _say_cpu(begin: str, runs: Mapping[str, Sequence[Measured]]) -> None:
    """Medians of the processor time for one pod."""
    for kind, measured in runs.items():
        names = [name for name in measured[0].extra if name.endswith(" ms")]
        used = {n: statistics.median(run.extra.get(n, 0) for run in measured) for n in names}
        parts = "  ".join(f"{name} {value:.2f}" for name, value in used.items())
        print(f"{begin}  {kind:10} {parts}  all {sum(used.values()):.2f}", flush=True)


def _options(argv: Sequence[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policies", nargs="+", default=["binpack", "spread"])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE",
                        help="more variables of the scheduler")  # fmt: skip
    given = parser.parse_args(argv)
    return Options(
        nodes=tuple(given.nodes), pods=given.pods, rounds=given.rounds,
        policies=tuple(given.policies), clients=given.clients, kinds=tuple(given.kinds),
        variables=dict(pair.split("=", 1) for pair in given.set),
    )  # fmt: skip


if __name__ == "__main__":
    asyncio.run(run(_options()))
