"""Gangs of 8 through a real kube-scheduler against the same pods alone, in turn in one run.

`single` and `gangs` are Tessera with gangs switched on: the first with pods of no gang, the second
with the same pods in Volcano PodGroups; `gated` are those that all have the scheduling gate,
`ungated` those that never have it, by default they have it while others wait. `off` is
Tessera as it is by default, with pods of no gang. `bare` is kube-scheduler without Tessera and pods
that ask for a processor; `coscheduling` is the plugin of that name, with the same pods as `bare` in
its own PodGroups. It is run where `--coscheduling` names a kube-scheduler that has it
(`sigs.k8s.io/scheduler-plugins`, package `pkg/coscheduling`, builds from Go modules).

PodGroups are created before the clock runs. Figures of each run:

    pods/s           from the first request to create a pod until all are bound, all_s seconds
    complete p99     from the request for a gang's last pod until it was whole; for single pods
                     from request to bound
    partial          seconds with some pods bound and fewer than the minimum, sum over gangs
    attempts         of kube-scheduler for each pod

    .venv/bin/python benchmarks/gangs.py [--nodes 100 1000 --pods 1000 --rounds 3]
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

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.gangs_load import GangRun, Load, make_groups, run_pods
from benchmarks.throughput import CARDS, SETTLE_S
from benchmarks.throughput_cluster import NAMESPACE, KubeScheduler, placing, prepare
from benchmarks.throughput_load import empty
from tessera_embedded.nats_server import NatsServer, open_nats
from tessera_embedded.ports import reserved_ports
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tests.cluster.gangs.kinds import install_kinds
from tests.cluster.plane import Plane, real_plane

ON: Final = {"TESSERA_GANGS_SCHEDULING": "on"}
WARM: Final = 96
"""Pods before those that count, of the same kind."""


class Kind(Struct, frozen=True, kw_only=True):
    """What places pods, and which."""

    placed_by: str
    """One of `throughput_cluster.KINDS`."""
    load: Load
    variables: Mapping[str, str] = {}


KINDS: Final[Mapping[str, Kind]] = {
    "off": Kind(placed_by="tessera", load=Load.SINGLE),
    "single": Kind(placed_by="tessera", load=Load.SINGLE, variables=ON),
    "gangs": Kind(placed_by="tessera", load=Load.GANGS, variables=ON),
    "gated": Kind(
        placed_by="tessera",
        load=Load.GANGS,
        variables={**ON, "TESSERA_GANGS_GATES": "gangs+queues"},
    ),
    "ungated": Kind(
        placed_by="tessera", load=Load.GANGS, variables={**ON, "TESSERA_GANGS_GATES": "none"}
    ),
    "bare": Kind(placed_by="bare", load=Load.BARE),
    "coscheduling": Kind(placed_by="bare", load=Load.COSCHEDULING),
}
_PROFILE: Final[Mapping[str, object]] = {"plugins": {
    "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
    "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
}}  # fmt: skip


class Bench:
    """One control plane, and what is measured on it."""

    def __init__(
        self, args: argparse.Namespace, plane: Plane, kube: Kube, nats: NatsServer
    ) -> None:
        """`args` are those of `_arguments`."""
        self._args = args
        self._plane, self._kube, self._nats = plane, kube, nats

    async def setting(self, nodes: int) -> dict[str, list[GangRun]]:
        """All rounds, by kind."""
        runs: dict[str, list[GangRun]] = defaultdict(list)
        kinds = self._args.kinds
        for number in range(self._args.rounds):
            for kind in (*kinds[number % len(kinds) :], *kinds[: number % len(kinds)]):
                run = await self._run(KINDS[kind], kind, f"{nodes}-{number}-{kind}")
                runs[kind].append(run)
                print(f"{nodes:5} nodes {kind:12} {run.row}", flush=True)
        return runs

    async def _run(self, kind: Kind, name: str, folder: str) -> GangRun:
        with reserved_ports(1) as (port,):
            flags = [
                f"--secure-port={port}", "--authorization-always-allow-paths=/metrics",
                f"--cert-dir={self._plane.folder}",
            ]  # fmt: skip
            stock = KubeScheduler(flags=flags)
            if name == "coscheduling":
                stock = KubeScheduler(
                    flags=flags, program=self._args.coscheduling, profile=_PROFILE
                )
            async with placing(
                kind.placed_by, self._plane, self._kube, self._nats,
                self._plane.folder / folder, kind.variables, stock,
            ):  # fmt: skip
                await self._pods(kind.load, WARM, port)
                await asyncio.sleep(SETTLE_S)
                return await self._pods(kind.load, self._args.pods, port)

    async def _pods(self, load: Load, count: int, port: int) -> GangRun:
        async with make_groups(self._kube, load, count, self._args.size):
            run = await run_pods(self._kube, load, count, self._args.size, port)
            await empty(self._kube, NAMESPACE)
        return run


async def measure(args: argparse.Namespace) -> None:
    """Measure and print."""
    for nodes in args.nodes:
        with tempfile.TemporaryDirectory(prefix="tessera-gangs-") as folder:
            async with (
                real_plane(Path(folder), quiet=True) as plane,
                open_nats(Path(folder) / "nats") as nats,
                plane.client() as admin,
                open_kube(
                    KubeSettings(kubeconfig=str(plane.control.kubeconfig), call_s=30, gather_s=0)
                ) as kube,
            ):
                await install_kinds(admin)
                await prepare(kube, nodes, CARDS)
                runs = await Bench(args, plane, kube, nats).setting(nodes)
        rates = {k: statistics.median(run.pods_per_s for run in got) for k, got in runs.items()}
        print(f"{nodes:5} nodes medians  " + "  ".join(f"{k} {r:.1f}" for k, r in rates.items()))
        for kind, base in (
            ("gangs", "single"),
            ("gated", "single"),
            ("ungated", "single"),
            ("single", "off"),
            ("coscheduling", "bare"),
        ):
            if rates.keys() >= {kind, base}:
                print(f"{nodes:5} nodes ratio    {kind} to {base} {rates[kind] / rates[base]:.3f}")


def _arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--size", type=int, default=8, help="members of a gang")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=None)
    parser.add_argument("--coscheduling", type=Path, help="a kube-scheduler with that plugin")
    args = parser.parse_args(argv)
    if args.kinds is None:
        args.kinds = [kind for kind in KINDS if kind != "coscheduling" or args.coscheduling]
    elif "coscheduling" in args.kinds and args.coscheduling is None:
        parser.error("--kinds coscheduling: name a kube-scheduler with --coscheduling")
    if args.pods % args.size:
        parser.error(f"--pods {args.pods}: write a multiple of --size {args.size}")
    return args


if __name__ == "__main__":
    asyncio.run(measure(_arguments()))
