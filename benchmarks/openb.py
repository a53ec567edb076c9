"""How much of a cluster of 6,212 GPUs each policy allocates, on the openb trace of Alibaba's.

DIR holds `openb_node_list_gpu_node.csv` and `openb_pod_list_<trace>.csv` (from alibaba/clusterdata,
folder cluster-trace-gpu-v2023/csv; not part of this project). Method: `openb_run`.

    python benchmarks/openb.py DIR [--trace NAME] [--policy NAME] [--seeds N] [--json]
    python benchmarks/openb.py DIR --departures [--jobs N]
                                                    pods leave, too: `openb_departures`
    python benchmarks/openb.py DIR [--others K] [--processor M]
                                                    the same with hosts in more demand, made up
    python benchmarks/openb.py DIR --history [--other NAME]
                                                    pack with less to learn from: `openb_history`
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import openb_departures, openb_history
from benchmarks.openb_run import POLICIES, Outcome, run
from benchmarks.openb_trace import Malformed, Trace, made_up, read

FIRST_SEED = 42


def spread(values: Sequence[float]) -> float:
    """Sample standard deviation; 0 of one value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def compare(
    trace: Trace, policies: Sequence[str], seeds: Sequence[int]
) -> dict[str, list[Outcome]]:
    """Outcomes of each policy, seed by seed."""
    return {name: [run(trace, POLICIES[name], seed) for seed in seeds] for name in policies}


def show(trace: Trace, found: dict[str, list[Outcome]]) -> None:
    """As a table."""
    print(f"trace {trace.name}: GPUs allocated in percent of {trace.capacity // 1000}")
    print(f"{'policy':13} {'at 100 %':>14} {'at 130 %':>14} {'s/seed':>7}  failed pods at 100 %")
    for name, outcomes in found.items():
        columns = [
            f"{statistics.mean(values):6.2f} +- {spread(values):4.2f}"
            for values in ([o.at_100 for o in outcomes], [o.at_130 for o in outcomes])
        ]
        seconds = statistics.mean(o.seconds for o in outcomes)
        failed = sum((o.failed for o in outcomes), Counter())
        kinds = ", ".join(f"{n / len(outcomes):.1f} {kind}" for kind, n in failed.most_common())
        print(f"{name:13} {columns[0]:>14} {columns[1]:>14} {seconds:7.2f}  {kinds}", flush=True)


def as_json(trace: Trace, found: dict[str, list[Outcome]]) -> str:
    """Trace -> policy -> mean and sd at 100 %, seconds per seed."""
    figures = {
        name: {
            "mean": round(statistics.mean(o.at_100 for o in outcomes), 3),
            "sd": round(spread([o.at_100 for o in outcomes]), 3),
            "seconds": round(statistics.mean(o.seconds for o in outcomes), 3),
        }
        for name, outcomes in found.items()
    }
    return json.dumps({trace.name: figures})


def main() -> None:
    """Read, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dir", type=Path, metavar="DIR")
    parser.add_argument("--trace", default="default", metavar="NAME")
    parser.add_argument("--policy", choices=POLICIES, action="append", help="only this; repeatable")
    parser.add_argument("--seeds", type=int, default=10, metavar="N")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--departures", action="store_true", help="pods leave, too")
    parser.add_argument("--jobs", type=int, default=1, help="processes of --departures")
    parser.add_argument("--history", action="store_true", help="pack with less to learn from")
    parser.add_argument("--other", metavar="NAME", help="a trace for --history to learn from")
    parser.add_argument("--others", type=float, default=1, help="pods without cards, times this")
    parser.add_argument("--processor", type=float, default=1, help="asked with cards, times this")
    args = parser.parse_args()
    if args.seeds < 1:
        parser.error("--seeds: write 1 or more")
    try:
        trace = read(args.dir, args.trace)
        other = read(args.dir, args.other) if args.other else None
    except Malformed as e:
        sys.exit(str(e))
    if (args.others, args.processor) != (1, 1):
        if min(args.others, args.processor) < 0:
            parser.error("--others, --processor: write 0 or more")
        trace = made_up(trace, args.others, args.processor)
    seeds = range(FIRST_SEED, FIRST_SEED + args.seeds)
    if args.departures:
        policies = args.policy or openb_departures.COMPARED
        openb_departures.show(trace, openb_departures.compare(trace, policies, seeds, args.jobs))
        return
    if args.history:
        openb_history.show(trace, other, seeds)
        return
    found = compare(trace, args.policy or list(POLICIES), seeds)
    if args.json:
        print(as_json(trace, found))
    else:
        show(trace, found)


if __name__ == "__main__":
    main()
