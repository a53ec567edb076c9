"""Gangs and queues: a cluster in virtual time on which policies start whole jobs, side by side.

    python benchmarks/workloads.py gangs [--mix philly] [--policy turns] [--seeds 3] [--jobs 1000]
        [--nodes 16] [--load 1.1] [--json]

Without names all mixes (`workloads_gang_mixes`) and all policies (`GANG_POLICIES`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from benchmarks.workloads_gang_cluster import GangCluster, GangPolicy
from benchmarks.workloads_gang_counted import GANG_FIGURES
from benchmarks.workloads_gang_mixes import MIXES, GangWorkload, make
from benchmarks.workloads_gang_policies import Line, Turns, by_age, by_priority
from benchmarks.workloads_gang_preemption import PreemptingTurns

Figures = Mapping[str, float]
GANG_POLICIES: Final[Mapping[str, Callable[[GangCluster], GangPolicy]]] = {
    "fifo": lambda cluster: Line(cluster, by_age, passing=False),
    "greedy": lambda cluster: Line(cluster, by_age, passing=True),
    "priority": lambda cluster: Line(cluster, by_priority, passing=True),
    "turns": Turns,
    "preempt": PreemptingTurns,
    "reclaim": lambda cluster: PreemptingTurns(cluster, reclaims=True),
}
"""What the first job of a line does when it does not fit, and who may evict:

- fifo: the oldest job is next, and nobody passes it.
- greedy: the same, and all that fit pass it.
- priority: as greedy, higher priority first.
- turns: gangs by their queues' shares; what fits passes. Pods of no gang go by priority.
- preempt: turns, and jobs of lower priority in the same queue are evicted.
- reclaim: preempt, and queues beyond what they deserve give back.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table for each mix."""
    args = _arguments(argv)
    seeds = range(1, args.seeds + 1)
    found: dict[str, dict[str, list[Figures]]] = {}
    for mix in args.mix or MIXES:
        workloads = [
            make(mix, seed, nodes=args.nodes, jobs=args.jobs, load=args.load) for seed in seeds
        ]
        found[mix] = {
            policy: [simulate(workload, policy) for workload in workloads]
            for policy in args.policy or GANG_POLICIES
        }
        if not args.json:
            days = ", ".join(f"{workload.span_s / 86400:.1f}" for workload in workloads)
            print(
                f"{mix}: {args.jobs} jobs in {days} days, {args.nodes} nodes x 8 cards, load "
                f"{args.load:g}, seeds 1 to {args.seeds}\n\n{table(found[mix])}\n"
            )
    if args.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{figure}: {what}" for figure, what in GANG_FIGURES.items()))
    return 0


def simulate(workload: GangWorkload, policy: str) -> Figures:
    """One policy on one workload; with the seconds of processor time that it took."""
    began = time.process_time()
    cluster = GangCluster(workload)
    figures = cluster.run(GANG_POLICIES[policy](cluster)).figures()
    return {**figures, "processor, s": time.process_time() - began}


def table(found: Mapping[str, Sequence[Figures]]) -> str:
    """A row for each policy: the mean over the seeds, and what its sample deviates by."""
    figures = list(next(iter(found.values()))[0])
    rows = [
        [policy, *(_spread([run[figure] for run in runs]) for figure in figures)]
        for policy, runs in found.items()
    ]
    head = [["policy", *figures], ["---"] * (1 + len(figures))]
    return "\n".join(f"| {' | '.join(row)} |" for row in head + rows)


def _spread(values: Sequence[float]) -> str:
    mean = statistics.fmean(values)
    digits = 2 if 0 < abs(mean) < 1 else 1 if abs(mean) < 100 else 0
    text = f"{mean:.{digits}f}"
    if len(values) < 2 or not any(values):
        return text
    return f"{text} ± {statistics.stdev(values):.{digits}f}"


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="workloads.py gangs", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--mix", action="append", choices=list(MIXES))
    parser.add_argument("--policy", action="append", choices=list(GANG_POLICIES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=16, help="with 8 cards each")
    parser.add_argument(
        "--load", type=float, default=1.1, help="part of the cards that all jobs need on average"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    for name in ("seeds", "jobs", "nodes", "load"):
        if getattr(args, name) <= 0:
            parser.error(f"--{name} {getattr(args, name)}: write more than 0")
    return args


if __name__ == "__main__":
    sys.exit(main())
