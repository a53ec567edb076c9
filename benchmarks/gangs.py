"""Gangs of 8 through a real kube-scheduler against the same pods alone, in turn in one run.

`single` and `gangs` are Tessera with gangs switched on: the first with pods of no gang, the second
with the same pods in Volcano PodGroups; `gated` are those that all have the scheduling gate,
`ungated` those that never have it, by default they have it while others wait. `off` is
Tessera as it is by default, with pods of no gang. `bare` is kube-scheduler without Tessera and pods
that ask for a processor; `coscheduling` is the plugin of that name, with the same pods as `bare` in
its own PodGroups. It is run where `--coscheduling` names a kube-scheduler that has it
(`sigs.k8s.io/scheduler-plugins`, package `pkg/coscheduling`).

With `--whole-cards` every pod of every kind asks for one `nvidia.com/gpu`, and each node counts as
many as it has cards: what Tessera and kube-scheduler's own count place alike. Without it, pods of
Tessera ask for parts of cards and the others for a processor, so no extender is called for those.

PodGroups are created before the clock runs. Figures of each run:

    pods/s           from the first request to create a pod until all are bound, all_s seconds
    complete p99     from the request for a gang's last pod until it was whole; for single pods
                     from request to bound
    partial          seconds with some pods bound and fewer than the minimum, sum over gangs
    attempts         of kube-scheduler for each pod
    cpu              processor time for a pod, of all programs and of each: it depends less on what
                     else the machine does

    .venv/bin/python benchmarks/gangs.py [--nodes 100 1000 --pods 1000 --rounds 3]
    .venv/bin/python benchmarks/gangs.py --whole-cards --cards 16 --coscheduling kube-scheduler
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

from benchmarks.gangs_load import GangRun, Load, make_groups, run_pods
from benchmarks.throughput import BARE, CARDS, SETTLE_S, SHARE
from benchmarks.throughput_cluster import NAMESPACE, KubeScheduler, Placing, placing, prepare
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
COUNTED: Final = "nvidia.com/gpu"
WHOLE: Final = {COUNTED: "1"}
COMPARED: Final = (
    ("gangs", "single"), ("gated", "single"), ("ungated", "single"), ("single", "off"),
    ("coscheduling", "bare"), ("off", "bare"), ("gangs", "coscheduling"),
)  # fmt: skip
"""A kind, and the one that it is held against."""


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
            ) as program:  # fmt: skip
                await self._pods(kind, WARM, port, program)
                await asyncio.sleep(SETTLE_S)
                return await self._pods(kind, self._args.pods, port, program)

    async def _pods(self, kind: Kind, count: int, port: int, program: Placing) -> GangRun:
        load, size = kind.load, self._args.size
        limits = BARE if kind.placed_by == "bare" else SHARE
        if self._args.whole_cards:
            limits = WHOLE
        pods = [load.pod(number, size, limits) for number in range(count)]
        async with make_groups(self._kube, load, count, size):
            before = program.cpu_s()
            run = await run_pods(self._kube, pods, size if load.together else 1, port)
            used = {
                name: (after - before[name]) * 1000 / count
                for name, after in program.cpu_s().items()
            }
            await empty(self._kube, NAMESPACE)
        return replace(run, cpu_ms=used)


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
                counted = {COUNTED: str(args.cards)} if args.whole_cards else {}
                await prepare(kube, nodes, args.cards, counted)
                runs = await Bench(args, plane, kube, nats).setting(nodes)
        _say(f"{nodes:5} nodes", {kind: _median(got) for kind, got in runs.items()})


def _median(runs: Sequence[GangRun]) -> GangRun:
    """Of each figure by itself."""
    middle = {
        name: statistics.median(getattr(run, name) for run in runs)
        for name in GangRun.__struct_fields__
        if name != "cpu_ms"
    }
    used = {name: statistics.median(run.cpu_ms[name] for run in runs) for name in runs[0].cpu_ms}
    return GangRun(**middle, cpu_ms=used)


def _say(begin: str, medians: Mapping[str, GangRun]) -> None:
    for kind, run in medians.items():
        print(f"{begin} median   {kind:12} {run.row}")
    for kind, base in COMPARED:
        if medians.keys() >= {kind, base}:
            run, held = medians[kind], medians[base]
            print(
                f"{begin} ratio    {kind} to {base}: pods/s {run.pods_per_s / held.pods_per_s:.3f}"
                f"  cpu {run.all_cpu_ms / held.all_cpu_ms:.3f}"
            )


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
    parser.add_argument("--cards", type=int, default=CARDS, help="of each node")
    parser.add_argument("--whole-cards", action="store_true", help="pods of one card each")
    args = parser.parse_args(argv)
    if args.kinds is None:
        args.kinds = [kind for kind in KINDS if kind != "coscheduling" or args.coscheduling]
    elif "coscheduling" in args.kinds and args.coscheduling is None:
        parser.error("--kinds coscheduling: name a kube-scheduler with --coscheduling")
    if args.pods % args.size:
        parser.error(f"--pods {args.pods}: write a multiple of --size {args.size}")
    there = min(args.nodes) * args.cards
    if args.whole_cards and there < args.pods:
        parser.error(f"--pods {args.pods}: {min(args.nodes)} nodes have {there} cards: write "
                     f"--cards {-(-args.pods // min(args.nodes))} or more")  # fmt: skip
    return args


if __name__ == "__main__":
    asyncio.run(measure(_arguments()))
